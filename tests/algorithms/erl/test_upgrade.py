"""States and configs that were saved by format 1 load under their present names."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from eigen2.algorithms.contract import Services
from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.experiment import open_experiment
from eigen2.algorithms.erl.upgrade import upgrade
from eigen2.config import load_config, validate
from eigen2.errors import ConfigError
from eigen2.section import STORED, retired_keys
from eigen2.store.checkpoints import Checkpoints
from eigen2.store.state import fingerprint

FORMAT1 = Path(__file__).parents[2] / "upgrade" / "format1"


def state_of(name):
    return Checkpoints(FORMAT1 / name).load("latest").state()


def leaves(state, prefix=""):
    for key, value in state.items() if isinstance(state, dict) else enumerate(state):
        if isinstance(value, dict | list):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@pytest.mark.parametrize("name", ["erl_orders", "erl_weights", "erl_gym"])
def test_a_state_of_format_1_loads_whole(name):
    config = validate(
        yaml.safe_load((FORMAT1 / name / "config.yaml").read_text(encoding="utf-8")), stored=True
    )
    stored = state_of(name)
    services = Services(datasets=None, fingerprint=fingerprint)  # type: ignore[arg-type]
    with open_experiment(config, services) as experiment:
        experiment.trainer.load_state_dict(stored)
        loaded = dict(leaves(experiment.trainer.state_dict()))
    expected = dict(leaves(upgrade(stored, critics=True)))
    assert loaded.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(np.asarray(loaded[key]), np.asarray(value), err_msg=key)


def test_old_operators_get_their_present_names():
    state = state_of("erl_weights")
    state["genealogy"]["births"][:3] = [["cem.middle", [0]], ["rested", [1]], ["relieved", [2]]]
    births = upgrade(state, critics=True)["genealogy"]["births"]
    assert births[:3] == [["cem.mean", [0]], ["skipped", [1]], ["replaced", [2]]]
    assert births[3:] == state["genealogy"]["births"][3:]


def test_a_present_state_is_left_as_it_is():
    present = upgrade(state_of("erl_gym"), critics=True)
    assert upgrade(present, critics=True) == present


def test_critics_that_were_never_trained_are_left_behind():
    stored = upgrade(state_of("erl_weights"), critics=True)
    found = upgrade(stored, critics=False)
    assert (found["learners"]["critic"], found["learners"]["critic_target"]) == ({}, {})
    assert found["learners"]["actor"] == stored["learners"]["actor"]
    assert upgrade(stored | {"learners": None}, critics=False)["learners"] is None


@pytest.mark.parametrize(
    "stored",
    [
        {"hall_of_fame": 9},
        {"encoder": "causal"},
        {"taper": 3, "founding": 2},
        {"training_decay_after": 4, "warmup_generations": 2, "direct_noise": 0.1},
    ],
)
def test_stored_keys_that_are_gone_still_read(stored):
    assert ERLConfig.model_validate(stored, context=STORED) == ERLConfig()


def test_mechanisms_that_did_something_are_named():
    stored = {"training_decay_after": None, "warmup_generations": 2, "direct_noise": 0.1, "taper": 3}
    assert retired_keys(ERLConfig, stored) == {"warmup_generations": 2, "direct_noise": 0.1, "taper": 3}
    idle = {"training_decay_after": None, "warmup_generations": 1, "direct_noise": 0.0}
    assert retired_keys(ERLConfig, idle) == {}


def test_a_stored_value_that_is_gone_is_refused():
    with pytest.raises(ValueError, match="encoder=cnn_lstm is no longer there"):
        ERLConfig.model_validate({"encoder": "cnn_lstm"}, context=STORED)


def test_a_key_that_is_gone_is_refused_where_it_is_typed():
    with pytest.raises(ConfigError, match="`alg.hall_of_fame` is no longer there"):
        load_config(["alg.hall_of_fame=5"])
