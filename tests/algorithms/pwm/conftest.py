import json

import pytest
import torch

from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.replay import Replay
from eigen2.store.memory import MemoryObjects

TINY = {
    "iterations": 6,
    "environments": 4,
    "steps": 4,
    "random_steps": 16,
    "horizon": 4,
    "evaluate_every": 3,
    "evaluate_episodes": 2,
    "model": {
        "latent": 16,
        "encoder_units": [16],
        "units": [16, 16],
        "updates": 2,
        "bootstrap_updates": 2,
        "batch": 8,
    },
    "actor": {"units": [16, 16], "updates": 2, "batch": 8},
    "critic": {"units": [16, 16], "epochs": 1, "minibatches": 2},
}


def merged(base, changes):
    out = dict(base)
    for key, value in changes.items():
        out[key] = merged(base[key], value) if isinstance(value, dict) and key in base else value
    return out


@pytest.fixture
def tiny():
    """tiny(**changes) -> a config that runs in milliseconds."""
    return lambda **changes: PWMConfig.model_validate(merged(TINY, changes))


@pytest.fixture
def copy_of():
    """copy_of(replay): through its snapshot, as a checkpoint stores it."""

    def copy(replay):
        objects = MemoryObjects()
        manifest = replay.snapshot().write(objects.put, objects.has)
        return Replay.restore(json.loads(json.dumps(manifest)), objects.read)

    return copy


@pytest.fixture
def with_average():
    """with_average(state, name): as a version stored it that kept a moving average of every actor under that name."""

    def stored(state, name):
        if isinstance(state, list):
            return [stored(value, name) for value in state]
        if not isinstance(state, dict):
            return state
        found = {key: stored(value, name) for key, value in state.items()}
        if "target_critic" in state:  # a behaviour, not the learner of one
            found[name] = {key: value + 0.125 for key, value in state["actor"].items()}
        return found

    return stored


@pytest.fixture
def stream():
    return torch.Generator().manual_seed(11)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
