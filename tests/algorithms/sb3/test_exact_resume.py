"""A trainer that went through the store goes on as if nothing had happened, in the middle of an episode too."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from eigen2.algorithms.sb3.trainer import SB3Trainer
from eigen2.envs.config import TradingConfig
from eigen2.envs.control.config import ControlConfig
from eigen2.errors import DamagedStateError
from eigen2.store.state import fingerprint

Make = Callable[..., SB3Trainer]
Save = Callable[[SB3Trainer], Any]
CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "sac": ("sac", "test/Drift-v0", {}),
    "td3": ("td3", "test/Drift-v0", {}),
    "ppo": ("ppo", "test/Drift-v0", {}),
    "sac with a time limit": ("sac", "Pendulum-v1", {}),
    "td3 with a time limit": ("td3", "Pendulum-v1", {}),
    "ppo with a time limit": ("ppo", "Pendulum-v1", {}),
    "sac that trains after episodes": (
        "sac",
        "test/Drift-v0",
        {"settings": {"train_freq": [1, "episode"], "gradient_steps": -1}},
    ),
    "sac with state-dependent noise": ("sac", "test/Drift-v0", {"settings": {"use_sde": True}}),
    "sac with fixed entropy": ("sac", "test/Drift-v0", {"settings": {"ent_coef": 0.1}}),
    "sac that is seldom evaluated": ("sac", "test/Drift-v0", {"evaluate_every": 2}),
    "ppo with state-dependent noise": ("ppo", "test/Drift-v0", {"settings": {"use_sde": True}}),
    "td3 on our control task": ("td3", ControlConfig(task="pendulum"), {}),
    "sac on a market": ("sac", TradingConfig(data="sp20", trading_days=25), {}),
    "ppo on a market": ("ppo", TradingConfig(data="sp20", actions="weights"), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_resume_is_bit_identical(case: str, make: Make, saved: Save, generators: Any) -> None:
    algorithm, env, options = CASES[case]
    first = make(algorithm, env, **options)
    for _ in range(3):
        first.step()
    state, replay = saved(first)
    expected = [first.step() for _ in range(3)]

    generators.disturb()
    second = make(algorithm, env, **options)
    second.load_state_dict(state)
    if (restored := replay()) is not None:
        second.use_replay(restored)
    generators.disturb()
    assert [second.step() for _ in range(3)] == expected
    assert fingerprint(second.state_dict()) == fingerprint(first.state_dict())
    if first.replay is not None and second.replay is not None:
        assert len(first.replay) == len(second.replay) == 150
    assert all(
        a.equal(b) for a, b in zip(first.best_weights().values(), second.best_weights().values(), strict=True)
    )


@pytest.mark.parametrize("algorithm", ["sac", "td3", "ppo"])
def test_resume_from_before_the_first_step(algorithm: str, make: Make, saved: Save) -> None:
    first, second = make(algorithm), make(algorithm)
    state, replay = saved(first)
    first.step()
    second.load_state_dict(state)
    if (restored := replay()) is not None:
        second.use_replay(restored)
    second.step()
    assert fingerprint(second.state_dict()) == fingerprint(first.state_dict())


@pytest.mark.parametrize("algorithm", ["sac", "ppo"])
def test_the_global_generators_are_as_they_were(algorithm: str, make: Make, generators: Any) -> None:
    generators.disturb()
    before = generators.take()
    trainer = make(algorithm)
    trainer.step()
    assert generators.take() == before


def test_an_environment_that_does_not_repeat_itself_is_refused(make: Make, saved: Save) -> None:
    first = make("sac", "test/Forgetful-v0")
    first.step()
    state, _ = saved(first)
    assert len(state["problem"]["environment"]["actions"]) > 0
    with pytest.raises(DamagedStateError, match="does not repeat its episodes"):
        make("sac", "test/Forgetful-v0").load_state_dict(state)


def test_a_longer_run_computes_the_same(make: Make) -> None:
    """`env_steps` operates: nothing that is computed depends on it."""
    short, long = make("ppo", env_steps=80), make("ppo", env_steps=400)
    for _ in range(2):
        assert short.step() == long.step()
    assert short.done
    assert (short.steps, long.steps) == (2, 10)
    assert fingerprint(short.state_dict()) == fingerprint(long.state_dict())


def test_a_weight_that_is_not_finite_stops_the_run(make: Make) -> None:
    trainer = make("ppo")
    next(iter(trainer.model.policy.parameters())).data.fill_(math.inf)
    with pytest.raises(DamagedStateError, match="SB3's log_std is not finite after step 1 of the run"):
        trainer.step()
