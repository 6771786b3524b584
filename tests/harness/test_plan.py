"""A run's needs are known before it starts; one that does not fit is refused with a setting that does."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_lab import ORDERS, PENDULUM, SB3, WORLD_MODEL, Lab

from eigen2.algorithms import registry
from eigen2.algorithms.contract import Needs
from eigen2.config import Config, load_config
from eigen2.errors import ResourceError
from eigen2.harness.advice import problems, suggestions
from eigen2.harness.calibration import calibrate
from eigen2.harness.disk_use import Saves
from eigen2.harness.forecast import Forecast, Opened, forecast
from eigen2.harness.host import Host
from eigen2.harness.planning import Planner
from eigen2.harness.room import Room

FIELDS = {"fits", "ram_bytes", "disk_bytes", "upload_bytes", "seconds", "components"}
SAC = ("alg=sb3_sac", "env=gym")
SMALL = ("alg=pwm_small", "env=pendulum")
TOO_MUCH = [
    (("alg.hidden=100000000",), "alg.hidden"),
    (("alg.batch=1000000000",), "alg.batch"),
    (("alg.population=1000000000",), "alg.population"),
    (("replay.capacity=1000000000000", "alg.generations=1000000"), "replay.capacity"),
    (("env.data=random_walk", "env.synthetic.symbols=1000000000"), "env.synthetic.symbols"),
    (("env.data=random_walk", "env.synthetic.days=100000000000"), "env.synthetic.days"),
    (("env=gym", "alg.hidden=100000000"), "alg.hidden"),
    (("env=gym", "alg.batch=1000000000"), "alg.batch"),
    ((*SMALL, "alg.model.batch=1000000000"), "alg.model.batch"),
    ((*SMALL, "alg.model.latent=800000000"), "alg.model.latent"),
    ((*SMALL, "alg.model.units=[100000000,100000000]"), "alg.model.units"),
    ((*SMALL, "alg.environments=1000000000"), "alg.environments"),
    ((*SMALL, "alg.horizon=1000000", "alg.random_steps=1000000"), "alg.horizon"),
    ((*SMALL, "alg.model.batch=1000000000", "alg.actor.batch=1000000000"), "several must be smaller"),
    ((*SAC, "alg.settings.batch_size=1000000000"), "alg.settings.batch_size"),
    ((*SAC, "alg.settings.policy_kwargs={net_arch: [100000000, 100000000]}"), "net_arch"),
]  # fmt: skip


def planner(*overrides: str) -> Planner:
    config = load_config(overrides)
    return Planner(config, Host(config).services, uploads=True)


def needs(config: Config) -> Needs:
    found = registry.algorithm(config.alg.kind).needs(config, Host(config).services)
    assert found is not None
    return found


def computed(*overrides: str) -> Forecast:
    return planner(*overrides).computed()


@pytest.mark.parametrize("overrides", [ORDERS, WORLD_MODEL, SB3["sac"]])
def test_plan_prints_what_the_design_promises_and_writes_nothing(
    lab: Lab, tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    facts = lab.run("plan", *overrides, f"run.root={tmp_path / 'runs'}", "--json").json
    assert set(facts) >= FIELDS
    assert facts["fits"] is True
    assert facts["calibrated"] is True
    assert facts["seconds"] > 0
    assert {"interpreter", "networks", "optimisers", "checkpoints"} <= set(facts["components"])
    assert sum(part["disk_bytes"] for part in facts["components"].values()) == facts["disk_bytes"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("overrides", "key"), TOO_MUCH)
def test_what_cannot_fit_is_refused_with_a_setting_that_does(
    lab: Lab, tmp_path: Path, overrides: tuple[str, ...], key: str
) -> None:
    done = lab.run("train", *overrides, f"run.root={tmp_path / 'runs'}")
    assert done.code == 4
    (sentence,) = done.err.splitlines()
    assert sentence.startswith("eigen2: The run needs ")
    assert key in sentence
    assert not list(tmp_path.iterdir())


LOUD = """
import gymnasium
from gymnasium.envs.classic_control import PendulumEnv

class Loud(PendulumEnv):
    def step(self, action):
        print("stepped" * 200)
        return super().step(action)

gymnasium.register("Loud-v0", entry_point=Loud, max_episode_steps=20)
"""


def test_what_an_environment_prints_is_no_part_of_an_answer(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "loud_envs.py").write_text(LOUD)
    overrides = (*PENDULUM, "env.id=loud_envs:Loud-v0", f"run.root={tmp_path / 'runs'}", "run.name=loud")
    planned = lab.run("plan", *overrides, "--json", cwd=tmp_path)
    assert planned.code == 0, planned.err
    assert planned.json["calibrated"] is True
    trained = lab.run("train", *overrides, "--json", cwd=tmp_path)
    assert trained.json["run"].endswith("loud")
    assert "stepped" in trained.err


def test_plan_of_what_cannot_fit_prints_its_facts_and_exits_4(lab: Lab, tmp_path: Path) -> None:
    done = lab.run("plan", "alg.hidden=100000000", f"run.root={tmp_path / 'runs'}", "--json")
    assert done.code == 4
    facts = done.json
    assert facts["fits"] is False
    assert facts["advice"][0].startswith("alg.hidden=")
    assert facts["calibrated"] is False


@pytest.mark.parametrize("overrides", [overrides for overrides, key in TOO_MUCH if "several" not in key])
def test_advice_that_is_followed_fits(overrides: tuple[str, ...]) -> None:
    asked = planner(*overrides)
    advice = asked.advice()
    assert advice
    for key, value in advice:
        spelled = json.dumps(list(value)) if isinstance(value, list | tuple) else str(value)
        if "policy_kwargs" in key:
            key, spelled = "alg.settings.policy_kwargs", f"{{net_arch: {spelled}}}"
        followed = planner(*(o for o in overrides if not o.startswith(key)), f"{key}={spelled}")
        assert problems(followed.computed(), asked.room) == []


def test_a_refused_run_starts_with_force(lab: Lab, tmp_path: Path) -> None:
    """The computed batch is never drawn: training would begin at a replay that this run does not reach."""
    overrides = (*ORDERS, "alg.batch=100000000", "alg.learning_starts=1000000", f"run.root={tmp_path}")
    assert lab.run("train", *overrides).code == 4
    assert lab.run("train", *overrides, "--force").code == 0


def test_a_run_records_its_forecast_and_what_it_took(finished: Path) -> None:
    noted = json.loads((finished / "run.json").read_text())
    assert noted["forecast"]["calibrated"] is False
    assert set(noted["actual"]) == {"ram_bytes", "disk_bytes", "upload_bytes", "seconds"}
    for field in ("ram_bytes", "disk_bytes"):
        assert 0.3 < noted["forecast"][field] / noted["actual"][field] < 3.0


def test_the_start_of_a_run_says_its_forecast_in_one_line(lab: Lab, tmp_path: Path) -> None:
    out = lab.run("train", *ORDERS, "alg.generations=1", f"run.root={tmp_path}").out
    (line,) = [line for line in out.splitlines() if line.startswith("forecast: ")]
    assert "memory" in line
    assert "disk" in line


@pytest.mark.parametrize(
    ("overrides", "key", "field"),
    [
        ((), "alg.population=64", "ram_bytes"),
        ((), "alg.hidden=256", "ram_bytes"),
        (("alg.block=4", "alg.windows=64"), "alg.block=8", "ram_bytes"),
        (("alg.hidden=64",), "alg.batch=65536", "ram_bytes"),
        (("alg.generations=1000",), "replay.capacity=500000", "ram_bytes"),
        (("alg.generations=1000",), "replay.capacity=500000", "disk_bytes"),
        ((), "alg.hidden=256", "disk_bytes"),
        ((), "alg.generations=50", "upload_bytes"),
        (("cluster=processes",), "workers=8", "ram_bytes"),
        (("env.data=random_walk",), "env.synthetic.symbols=500", "ram_bytes"),
        (("env.data=random_walk",), "env.synthetic.days=200000", "ram_bytes"),
        (SMALL, "alg.model.batch=4096", "ram_bytes"),
        (SMALL, "alg.model.latent=512", "disk_bytes"),
        (SMALL, "alg.environments=1024", "ram_bytes"),
        (SMALL, "checkpoint.every=1", "upload_bytes"),
        (SAC, "alg.env_steps=200000", "ram_bytes"),
        (SAC, "alg.settings={batch_size: 100000}", "ram_bytes"),
    ],
)
def test_a_forecast_grows_with_what_it_depends_on(overrides: tuple[str, ...], key: str, field: str) -> None:
    assert getattr(computed(*overrides, key), field) > getattr(computed(*overrides), field)


def test_checkpoints_that_are_superseded_are_sent_but_not_kept() -> None:
    config = load_config(["checkpoint.every=2", "run.report=false"])
    assert Saves(5, 2).some() == [2, 4, 5]
    wants = Needs(steps=100, state=10**6, first_state=10**6, evaluations=100, log=0, evaluation=0)
    found = forecast(config, wants, uploads=True)
    assert 4 * 10**6 < found.disk_bytes < 4.2 * 10**6
    assert 51 * 10**6 < found.upload_bytes < 52 * 10**6
    assert found.room_bytes >= found.disk_bytes + 4 * 10**6
    assert forecast(config, wants, uploads=False).upload_bytes == 0


def test_what_is_open_already_is_not_counted_twice() -> None:
    config = load_config()
    wants = Needs(held={"networks": 10**9}, steps=1, state=1000)
    before = forecast(
        config, wants, uploads=False, opened=Opened(resident=2 * 10**9, peak=2 * 10**9, state=1000)
    )
    assert before.ram_bytes < 2.1 * 10**9
    assert before.components["networks"].ram == 10**9


def test_a_peak_that_is_over_still_counts() -> None:
    found = forecast(
        load_config(), Needs(), uploads=False, opened=Opened(resident=10**8, peak=5 * 10**9, state=0)
    )
    assert found.ram_bytes == 5 * 10**9


def test_components_on_a_gpu_are_not_in_the_machines_memory() -> None:
    config = load_config()
    wants = Needs(held={"networks": 10**9, "market": 10**8}, peaks={"train": 10**9}, on_device=("networks",))
    found = forecast(config, wants, uploads=False, on_gpu=True)
    assert found.gpu_bytes == 10**9 + round(1.1 * 10**9)
    room = Room(ram=10**10, ram_source="machine", disk=10**12, gpu=10**9)
    assert "on the GPU" in problems(found, room)[0]


def test_advice_names_several_settings_when_several_help() -> None:
    config = load_config(["alg.population=4096", "alg.block=4096"])
    room = Room(ram=4 * 10**9, ram_source="machine", disk=10**12)

    def fits(changed: Config) -> bool:
        return not problems(forecast(changed, needs(changed), uploads=False), room)

    assert [key for key, _ in suggestions(config, needs(config).knobs, fits)] == [
        "alg.block",
        "alg.population",
        "alg.windows",
    ]


def test_a_calibration_that_grows_too_large_is_ended() -> None:
    with pytest.raises(ResourceError, match="one step alone takes more than 0.10 GB"):
        calibrate(load_config(list(ORDERS)), room=10**8)


def test_a_calibration_measures_a_state_and_a_replay() -> None:
    config = load_config(list(ORDERS))
    found = calibrate(config, room=10**10)
    wants = needs(config)
    assert found.record == wants.record
    assert found.first_state == pytest.approx(wants.first_state, rel=0.05)
    assert found.peak > found.opened > 10**8
    assert found.steps == 3
    assert replace(found, seconds=1.0).seconds == 1.0


def test_refusing_needs_no_torch() -> None:
    script = (
        "import sys; from eigen2.harness.planning import plan_run; facts, error = plan_run(['alg.hidden=100000000']);"
        "assert error is not None; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_resume_that_no_longer_fits_is_refused(lab: Lab, finished: Path) -> None:
    done: Any = lab.run("train", "--resume", str(finished), "workers=1000000", "cluster=processes")
    assert done.code == 4
    assert "workers=" in done.err
