"""What a run of Stable-Baselines3 will need, from its config and the size of its environment. Imports neither torch nor
SB3."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigen2.algorithms.contract import Calibration, Needs, StepSeconds
from eigen2.algorithms.sb3 import SB3Config
from eigen2.envs.config import TradingConfig
from eigen2.envs.control.sizes import control_sizes
from eigen2.envs.trading.observation import ACCOUNT_FEATURES, POSITION_FEATURES
from eigen2.evaluation.pictures import stored_evaluation
from eigen2.market.shape import MarketShape, market_shape
from eigen2.replay.schema import vector_schema
from eigen2.replay.size import stored_bytes

if TYPE_CHECKING:
    from eigen2.config import Config

FLOAT = 4
LAYERS = {"sac": [256, 256], "td3": [400, 300], "ppo": [64, 64]}
BATCH = {"sac": 256, "td3": 256, "ppo": 64}
PPO_STEPS = 2048
KEPT = 6
"""Tensors that a pass through one layer keeps or makes, per row."""
ENVIRONMENT = 100_000
SHORT_ROUND = 300
"""Environment steps of a calibration; SB3 starts to learn after 100."""
PACKED = 0.9
KNOBS = ("replay.capacity", "alg.settings.batch_size", "alg.settings.n_steps", "alg.settings.policy_kwargs.net_arch",
         "alg.evaluate_episodes", "env.synthetic.symbols", "env.synthetic.days", "alg.env_steps")  # fmt: skip


def sb3_needs(config: "Config", data: Path | None) -> Needs | None:
    alg, env = config.alg, config.env
    assert isinstance(alg, SB3Config)
    market = rows = None
    if isinstance(env, TradingConfig):
        market = market_shape(env, data)
        if market is None:
            return None
        observation = market.symbols * (len(env.features) + 1) + market.tradable * len(POSITION_FEATURES)
        observation += len(ACCOUNT_FEATURES)
        action = market.tradable + 1 if env.actions == "weights" else 2 * market.tradable
    else:
        sizes = control_sizes(env)
        observation, action, rows = sizes.observation, sizes.action, sizes.observation_rows
    settings = alg.settings
    batch = _whole(settings.get("batch_size"), BATCH[alg.algorithm])
    actor, critic = _networks(alg, observation, action)
    policy, trained, widths = _counts(alg.algorithm, actor, critic)
    held, opening, evaluation = {}, 0, 10_000
    if market is not None:
        assert isinstance(env, TradingConfig)
        cells, features = market.cells, len(env.features)
        tables = market.days * market.tradable * (3 * 8 + 2)
        evaluation = stored_evaluation(env.holdout_days, market.tradable)
        held["market"] = cells * (8 * market.prices + 1 + FLOAT * features) + 3 * tables
        opening = cells * (8 * market.prices + FLOAT * features + 8 * 9 + (100 if market.is_file else 0))
    else:
        held["environments"] = (1 + alg.evaluate_episodes + 20) * ENVIRONMENT
    on_policy = alg.algorithm == "ppo"
    size = _whole(settings.get("n_steps"), PPO_STEPS) if on_policy else alg.steps_per_round
    steps = math.ceil(alg.env_steps / size)
    record = 0 if on_policy else stored_bytes(vector_schema(observation, action, rows=rows))
    if on_policy:
        held["rollout"] = size * FLOAT * (observation + action + 6)
    rows = batch * FLOAT * (KEPT * widths + 4 * (observation + action))
    state = FLOAT * (policy + 2 * trained + policy)
    return Needs(
        held={**held, "networks": FLOAT * 2 * policy, "optimisers": FLOAT * 3 * trained},
        peaks={"learn": rows},
        opening=opening,
        on_device=("networks", "optimisers"),
        steps=steps,
        state=state,
        first_state=FLOAT * policy,
        best=FLOAT * policy,
        evaluations=max(1, steps // alg.evaluate_every),
        best_agent=FLOAT * policy,
        record=record,
        transitions=0 if on_policy else steps * size,
        packed=PACKED,
        own_data=_kept(config, market),
        log=700,
        evaluation=evaluation,
        knobs=KNOBS,
    )


def _kept(config: "Config", market: MarketShape | None) -> int:
    if market is None or not market.is_file or not config.run.keep_data:
        return 0
    return market.cells * 8 * market.prices * 4 // 5


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) else default


def _networks(alg: SB3Config, observation: int, action: int) -> tuple[list[int], list[int]]:
    """Sizes of the layers of the actor and of one critic, the input first."""
    kwargs = alg.settings.get("policy_kwargs")
    arch = kwargs.get("net_arch") if isinstance(kwargs, Mapping) else None
    hidden = critic = LAYERS[alg.algorithm]
    if isinstance(arch, Mapping):
        hidden, critic = arch.get("pi", hidden), arch.get("qf", arch.get("vf", critic))
    elif isinstance(arch, Sequence) and all(isinstance(width, int) for width in arch):
        hidden = critic = list(arch)
    heads = 2 * action if alg.algorithm == "sac" else action
    seen = observation if alg.algorithm == "ppo" else observation + action
    return [observation, *hidden, heads], [seen, *critic, 1]


def _counts(algorithm: str, actor: list[int], critic: list[int]) -> tuple[int, int, int]:
    """Numbers in all networks, in those with an optimiser, and the width of everything a row passes through."""
    pi, q = _numbers(actor), _numbers(critic)
    widths = sum(actor[1:]) + 2 * sum(critic[1:])
    if algorithm == "ppo":
        return pi + q, pi + q, sum(actor[1:]) + sum(critic[1:])
    if algorithm == "td3":
        return 2 * pi + 4 * q, pi + 2 * q, 2 * widths
    return pi + 4 * q, pi + 2 * q, 2 * widths


def _numbers(sizes: list[int]) -> int:
    return sum(a * b + b for a, b in zip(sizes[:-1], sizes[1:], strict=True))


def sb3_calibration(config: "Config") -> Calibration:
    """A short round; PPO's rounds are as long as its rollout."""
    alg = config.alg
    assert isinstance(alg, SB3Config)
    if alg.algorithm == "ppo":
        return Calibration(config)
    length = min(alg.steps_per_round, SHORT_ROUND)
    short = alg.model_copy(update={"steps_per_round": length, "evaluate_every": 1})

    def seconds(steps: StepSeconds, total: int) -> float:
        rounds = math.ceil(alg.env_steps / alg.steps_per_round)
        learn = steps[0].get("learn", 0.0) * alg.steps_per_round / length
        return rounds * learn + steps[0].get("evaluate", 0.0) * (rounds // alg.evaluate_every)

    return Calibration(config.model_copy(update={"alg": short}), 1, seconds)
