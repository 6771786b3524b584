"""PWM behind the contract: what a config opens, what a run begins with, evaluation and export."""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from eigen2.algorithms.contract import Services
from eigen2.algorithms.pwm import PWM
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.export import load_policy
from eigen2.config import Config, fingerprint, load_config, validate
from eigen2.envs.control.config import TasksConfig
from eigen2.envs.control.environments import Environments, Task
from eigen2.envs.control.rollout import play_episodes
from eigen2.errors import ConfigError, DamagedStateError, DataError
from eigen2.replay import Replay

FILES = {"init_policy.pt", "best_policy.pt", "latest_checkpoint.pt", "final_policy.pt"}
CHAMPION = {"champion.json", "champion.safetensors", "champion.pt2"}


class StoredRuns:
    """Other runs by name: (config, function that gives its replay)."""

    def __init__(self, **runs):
        self.runs = runs

    def locate(self, source):
        if source.name not in self.runs:
            raise ConfigError(f"there is no run {source}")
        return Path("/runs") / source.name

    def config(self, source):
        return self.runs[source.name][0]

    def replay(self, source):
        replay = self.runs[source.name][1]()
        return replay, {"path": str(source), "transitions": len(replay)}


def offering(datasets, **services):
    return Services(datasets, lambda state: "", **services)


def open_with(config, **services):
    return PWM().open(config, offering(StoredRuns(), **services))


@pytest.fixture
def config(tiny):
    """config(env, **alg) -> a run's config."""

    def make(env, **alg):
        settings = tiny(**alg).model_dump(mode="json")
        return validate({"alg": settings, "env": env, "seed": 3, "replay": {"capacity": 2000}})

    return make


PENDULUM = {"kind": "control", "task": "pendulum"}
GYM = {"kind": "gym", "id": "Pendulum-v1", "max_episode_steps": 20}


@pytest.fixture
def runs(config, copy_of):
    stored: dict[str, tuple[Config, Callable[[], Replay] | None]] = {}
    for name, env in (("swing", PENDULUM), ("gym", GYM)):
        with open_with(config(env)) as experiment:
            experiment.trainer.step()
            stored[name] = (config(env), partial(copy_of, experiment.trainer.replay))
    stored["market"] = (load_config(), None)
    return StoredRuns(**stored)


@pytest.mark.parametrize("env", [PENDULUM, GYM])
def test_a_run_trains_and_is_evaluated_on_fresh_episodes(config, env):
    reports = []
    with open_with(config(env), progress=lambda *report: reports.append(report)) as experiment:
        assert experiment.load_dataset() == {}
        while not experiment.trainer.done:
            experiment.trainer.step()
        trainer = experiment.trainer
        before = play_episodes(trainer.task, trainer.champion(), 20, trainer.seed, "final").returns
        found = experiment.evaluate("validation")
        assert found.facts["returns"] == before.tolist()
        assert found.facts == experiment.evaluate("holdout").facts
        assert ("note" in found.facts) == (env is PENDULUM)
    assert {phase for phase, _, _ in reports} == {"collect", "model", "policy", "evaluate"}


def test_environments_are_closed_with_the_context(config, monkeypatch):
    closed = []
    monkeypatch.setattr(Task, "close", lambda self: closed.append(self.name))
    with open_with(config(GYM)) as experiment:
        assert isinstance(experiment.trainer.collector.environments, Environments)
    assert closed == ["Pendulum-v1"]


def test_pretraining_begins_with_a_located_replay(config, runs):
    services = offering(runs)
    asked = config(PENDULUM, pretrain={"replay": "swing", "updates": 4})
    resolved = PWM().resolve(asked, services)
    assert isinstance(resolved.alg, PWMConfig)
    assert resolved.alg.pretrain.replay == Path("/runs/swing")
    with PWM().open(resolved, services) as experiment:
        facts = experiment.load_dataset()
        assert facts == {"pretrained_from": {"path": "/runs/swing", "transitions": 80}}
        assert experiment.trainer.phases[0] == "pretrain"
        assert experiment.trainer.step()["pretrained"] == 2.0


def tasks(*names):
    return {"kind": "tasks", "replays": [*names]}


def test_several_tasks_are_read_from_the_runs_that_hold_their_data(config, runs):
    services = offering(runs)
    settings = {"iterations": 2, "multitask": {"policy_iterations": 1}}
    resolved = PWM().resolve(config(tasks("swing", "gym"), **settings), services)
    assert isinstance(resolved.env, TasksConfig)
    assert [env.label for env in resolved.env.tasks] == ["pendulum", "Pendulum-v1"]
    with PWM().open(resolved, services) as experiment:
        assert [facts["path"] for facts in experiment.load_dataset()["trained_on"]] == [
            "/runs/swing",
            "/runs/gym",
        ]
        while not experiment.trainer.done:
            experiment.trainer.step()
        found = experiment.evaluate("validation")
        assert found.facts["tasks"].keys() == {"pendulum", "Pendulum-v1"}
        assert experiment.trainer.owners()["replay"] > 0
        with pytest.raises(ConfigError, match=r"several tasks.*best_agent\.safetensors"):
            experiment.export(Path("nowhere"), {})


@pytest.mark.parametrize(
    ("env", "alg", "kind", "words"),
    [
        (tasks(), {}, ConfigError, "env=tasks needs data"),
        (tasks("swing", "nowhere"), {}, ConfigError, "nowhere"),
        (tasks("swing", "market"), {}, DataError, "no experience of one control task"),
        (tasks("swing"), {"pretrain": {"replay": "swing"}}, ConfigError, "leave alg.pretrain.replay out"),
    ],
)
def test_data_that_cannot_be_used_is_refused_before_anything_is_opened(config, runs, env, alg, kind, words):
    with pytest.raises(kind, match=words):
        PWM().resolve(config(env, **alg), offering(runs))


def test_an_export_holds_every_policy_its_scores_and_a_card(config, tmp_path):
    settings = config(PENDULUM, evaluate_every=2)
    metadata = {"name": "swing", "packages": {"torch": "2"}, "pretrained_from": None}
    with open_with(settings, metadata=lambda: metadata) as experiment:
        trainer = experiment.trainer
        states = {"init": trainer.state_dict()}
        while not trainer.done:
            trainer.step()
        states |= {"latest": trainer.state_dict(), "final": trainer.state_dict()}
        facts = experiment.export(tmp_path, states)
        assert facts["absent"].keys() == {"best_policy.pt"}
        facts = experiment.export(tmp_path, states | {"best": trainer.state_dict()})
        observations = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
        newest, best = trainer.policy()(observations), trainer.champion()(observations)
        score = experiment.evaluate("validation").facts["mean_return"]
    json.dumps(facts, allow_nan=False)
    assert facts["files"].keys() == FILES
    assert facts["absent"] == {}
    assert {path.name for path in tmp_path.iterdir()} == FILES | {"README.md", *CHAMPION}
    np.testing.assert_array_equal(load_policy(tmp_path / "final_policy.pt")(observations), newest)
    np.testing.assert_array_equal(load_policy(tmp_path / "best_policy.pt")(observations), best)
    assert facts["files"]["best_policy.pt"]["mean_return"] == score
    assert facts["files"]["best_policy.pt"]["iteration"] == trainer.best.iteration
    card = (tmp_path / "README.md").read_text()
    for words in ("run `swing`, seed 3", fingerprint(settings), "torch 2", f"{score:.1f}", "not comparable"):
        assert words in card, words


def test_an_exported_file_of_format_1_still_acts(config, tmp_path):
    with open_with(config(PENDULUM)) as experiment:
        experiment.trainer.step()
        experiment.export(tmp_path, {"final": experiment.trainer.state_dict()})
    contents = torch.load(tmp_path / "final_policy.pt", weights_only=True)
    settings = json.loads(contents["config"])
    settings |= {"average": 0.9, "newest": 5, "go_back": True}
    settings["actor"]["policy"] = "gaussian"
    torch.save({**contents, "config": json.dumps(settings)}, tmp_path / "old.pt")
    observations = np.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(
        load_policy(tmp_path / "old.pt")(observations),
        load_policy(tmp_path / "final_policy.pt")(observations),
    )
    settings["actor"]["policy"] = "flow"
    torch.save({**contents, "config": json.dumps(settings)}, tmp_path / "flow.pt")
    with pytest.raises(DamagedStateError, match="policy=flow is no longer there"):
        load_policy(tmp_path / "flow.pt")


def test_knowing_the_algorithm_needs_no_torch():
    code = (
        "import sys; from eigen2.algorithms.pwm import PWM; import eigen2.algorithms.pwm.config; "
        "assert 'pwm_tiny' in PWM().presets(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
