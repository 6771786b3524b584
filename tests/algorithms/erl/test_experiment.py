"""An ERL experiment as the harness sees it: trained, evaluated, exported and closed through the contract alone."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from eigen2.algorithms.contract import Services
from eigen2.algorithms.registry import algorithm
from eigen2.config import load_config
from eigen2.errors import ConfigError
from eigen2.replay import Replay
from eigen2.store.holdout_ledger import HoldoutLedger
from eigen2.store.memory import MemoryObjects
from eigen2.store.state import fingerprint

MARKET = (
    "env.data=planted_reversal", "env.synthetic.days=300", "env.synthetic.symbols=4", "env.window=8",
    "env.trading_days=12", "env.settlement_days=3", "env.max_holding_days=4", "env.validation_days=40",
    "env.holdout_days=40", "env.embargo_days=4", "alg.validation_windows=2", "alg.direct_steps=2",
)  # fmt: skip
PENDULUM = ("env=pendulum",)
TINY = (
    "alg.population=4", "alg.generations=3", "alg.windows=2", "alg.learners=1", "alg.elites=1", "alg.hidden=8",
    "alg.gradient_steps=3", "alg.batch=16", "alg.learning_starts=50", "replay.capacity=5000", "seed=3",
)  # fmt: skip


def opened(*overrides, **services):
    config = load_config([*overrides, *TINY])
    offered = Services(datasets=None, fingerprint=fingerprint, **services)  # type: ignore[arg-type]
    return algorithm("erl").open(config, offered)


@pytest.mark.parametrize("overrides", [MARKET, ("env.actions=weights", *MARKET), PENDULUM])
def test_a_run_resumes_exactly_from_its_state(overrides):
    with opened(*overrides) as experiment:
        original = experiment.trainer
        original.step()
        original.step()
        disk = MemoryObjects()
        state, manifest = original.state_dict(), original.replay.snapshot().write(disk.put, disk.has)
        with opened(*overrides) as other:
            resumed = other.trainer
            resumed.load_state_dict(state)
            resumed.use_replay(Replay.restore(manifest, disk.read))
            metrics = original.step()
            assert "critic_loss" in metrics
            assert resumed.step() == metrics
            assert resumed.take_records() == original.take_records()
            assert all(torch.equal(value, resumed.actors[name]) for name, value in original.actors.items())
            assert original.done


def test_a_run_without_a_champion_cannot_be_evaluated():
    with opened(*MARKET) as experiment, pytest.raises(ConfigError, match="no champion before"):
        experiment.evaluate("validation")


def test_a_market_run_is_evaluated_and_its_holdout_uses_are_counted(ledger):
    earlier: list[dict[str, Any]] = []
    with opened(*MARKET, evaluations=lambda: earlier, holdouts=HoldoutLedger(ledger)) as experiment:
        assert len(experiment.data_fingerprint) == 64
        experiment.trainer.step()
        for uses in (1, 2):
            found = experiment.evaluate("holdout")
            assert found.facts["holdout_looks"] == uses
            earlier.append(found.facts)
        assert found.facts["trials"] == 4
        assert experiment.evaluate("validation").facts["holdout_looks"] == 0
        series = found.series["returns"]
        assert len({len(column) for column in series.values()}) == 1
        assert {"date", "champion", "equal_weight", "oracle"} <= series.keys()


def test_a_holdout_whose_use_nobody_counts_stays_closed():
    with opened(*MARKET) as experiment:
        experiment.trainer.step()
        with pytest.raises(ValueError, match="without a ledger"):
            experiment.evaluate("holdout")


def test_a_control_run_is_evaluated_beside_the_reference_policies():
    with opened(*PENDULUM) as experiment:
        assert experiment.data_fingerprint == ""
        experiment.trainer.step()
        facts = experiment.evaluate("validation").facts
    assert facts["episodes"] == len(facts["returns"]) == 20
    assert np.isfinite([facts["mean_return"], facts["random_return"], facts["stand_still_return"]]).all()


def test_the_trainer_declares_what_it_shows_and_holds():
    with opened(*MARKET) as experiment:
        trainer = experiment.trainer
        metrics = trainer.step()
        assert set(trainer.headline) <= metrics.keys()
        assert "champion" not in metrics
        owners = trainer.owners()
    assert owners.keys() == {
        "actors", "learner_actors", "learner_critics", "optimiser", "search_distribution", "champion",
        "trial_ledger", "market", "market_tensors", "environments", "replay", "batches",
    }  # fmt: skip
    assert all(size > 0 for size in owners.values())


def test_the_champion_is_exported_as_plain_files(tmp_path):
    with opened(*PENDULUM) as experiment:
        experiment.trainer.step()
        experiment.export(tmp_path, {})
    assert {path.name for path in tmp_path.iterdir()} == {
        "README.md",
        "champion.json",
        "champion.pt2",
        "champion.safetensors",
    }


def test_choosing_the_algorithm_imports_no_torch():
    code = "import sys, eigen2.algorithms.erl; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
