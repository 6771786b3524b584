"""Configs and states of earlier versions: what they mean now, and what is refused."""

import pytest

from eigen2.config import load_config, retired, validate
from eigen2.errors import ConfigError

PENDULUM = ("alg=pwm_tiny", "env=pendulum")


def stored(**alg):
    """A config as an earlier version stored it."""
    values = load_config(PENDULUM).model_dump(mode="json")
    return {**values, "alg": {**values["alg"], **alg}}


@pytest.mark.parametrize(
    ("key", "idle", "used"),
    [
        ("collect", "closed_loop", "open_loop"),
        ("recent_window", 0, 12_000),
        ("newest", 0, 12_000),
        ("actor_ema", 0.0, 0.9),
        ("average", 0.0, 0.9),
    ],
)
def test_a_run_with_a_mechanism_that_is_gone_reads_and_says_so_if_it_was_used(key, idle, used):
    for value, said in ((idle, {}), (used, {f"alg.{key}": used})):
        assert validate(stored(**{key: value}), stored=True) == load_config(PENDULUM)
        assert retired(stored(**{key: value})) == said


@pytest.mark.parametrize(
    "word",
    [
        "collect=open_loop",
        "recent_window=0",
        "newest=5",
        "actor_ema=0",
        "average=0.9",
        "actor.policy=gaussian",
    ],
)
def test_a_key_that_is_gone_cannot_be_typed(word):
    key = word.partition("=")[0]
    with pytest.raises(ConfigError, match=f"`alg.{key}` is no longer there; leave it out"):
        load_config([*PENDULUM, f"alg.{word}"])


def test_a_gaussian_policy_reads_on_and_a_flow_policy_is_refused_by_name():
    actor = stored()["alg"]["actor"]
    assert validate(stored(actor={**actor, "policy": "gaussian"}), stored=True) == load_config(PENDULUM)
    with pytest.raises(ConfigError, match="policy=flow is no longer there"):
        validate(stored(actor={**actor, "policy": "flow"}), stored=True)
