"""What a learner that sees vectors is set to do: an environment to learn in, and the judgement of what it learned.

The environment is of any kind that Eigen2 knows, behind Gymnasium's interface, and can be saved at any step. A policy
maps observations [n, ...] to actions [n, ...] of its spaces.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from eigen2 import seeds
from eigen2.envs.config import EnvConfig, GymConfig, TradingConfig
from eigen2.envs.control.catalogue import control_task
from eigen2.envs.control.config import ControlConfig
from eigen2.envs.control.environments import Environments, Task
from eigen2.envs.control.rollout import play_episodes
from eigen2.envs.trading import TradingCore
from eigen2.envs.trading.env import TradingEnv
from eigen2.envs.trading.flat import FlatObservation, flat_policy
from eigen2.errors import ConfigError
from eigen2.evaluation.backtest import Policy as MarketPolicy
from eigen2.evaluation.backtest import run_policy
from eigen2.evaluation.champion import ControlChampion, MarketChampion
from eigen2.evaluation.control import evaluate_control
from eigen2.evaluation.ledger import trial_ledger
from eigen2.evaluation.market import evaluate_market_policy
from eigen2.evaluation.result import Champion, Evaluation, HoldoutLedger, WhatIf
from eigen2.market.data import FloatArray, MarketData
from eigen2.market.kept import kept_prices
from eigen2.market.load import load_market

Policy = Callable[[NDArray[np.float32]], NDArray[np.float32]]
Evaluations = Callable[[], list[dict[str, Any]]]
RECENT = 10


class Problem(ABC):
    env: gymnasium.Env[Any, Any]
    data_fingerprint: str = ""
    rounded_data_fingerprint: str = ""
    notes: tuple[str, ...] = ()
    """What people should know about the environment."""

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int) -> None:
        self.env = self._counted = _CountedReturns(env)
        self.env.action_space.seed(seeds.integer(seed, "random actions") % 2**31)

    @property
    def returns(self) -> list[float]:
        """Of the last finished episodes, at most 10."""
        return self._counted.finished

    @property
    def observation_rows(self) -> int | None:
        """How many rows an observation is a stack of; None unless most of them were in the one before."""
        return None

    def owners(self) -> dict[str, int]:
        """Bytes held, by name."""
        return {}

    @abstractmethod
    def score(self, policy: Policy, episodes: int) -> float:
        """What a policy earns, to choose the best one by: the same test at every call, never the final one."""

    @abstractmethod
    def evaluate(self, policy: Policy, split: str, what_if: WhatIf | None = None) -> Evaluation:
        """All that can be said about a policy; `split` is `validation` or `holdout` where data is split."""

    @abstractmethod
    def champion(self, policy: Policy) -> Champion:
        """A policy by itself, acting in the environment's own bounds."""

    def own_data(self) -> bytes | None:
        """The user's own prices as one file, for `open_problem` to read later; None where there are none."""
        return None

    @abstractmethod
    def close(self) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {
            "environment": self._environment_state(),
            "running": self._counted.running,
            "finished": self._counted.finished,
            "random_actions": self.env.action_space.np_random.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._load_environment_state(state["environment"])
        self._counted.running, self._counted.finished = state["running"], state["finished"]
        self.env.action_space.np_random.bit_generator.state = state["random_actions"]

    @abstractmethod
    def _environment_state(self) -> dict[str, Any]: ...

    @abstractmethod
    def _load_environment_state(self, state: dict[str, Any]) -> None: ...


def open_problem(
    env: EnvConfig,
    seed: int,
    evaluations: Evaluations = list,
    data: Path | None = None,
    holdouts: HoldoutLedger | None = None,
) -> Problem:
    """Whoever opens it closes it; `evaluations` gives the facts of the run's earlier ones, `data` is the file that
    holds its `own_data`, `holdouts` is where uses of the holdout are recorded."""
    if isinstance(env, GymConfig | ControlConfig):
        return ControlProblem(control_task(env), seed)
    if isinstance(env, TradingConfig):
        return TradingProblem(env, seed, evaluations, data, holdouts)
    raise ConfigError(f"env={env.label} holds several environments; choose one, e.g. env=gym or env=trading.")


class ControlProblem(Problem):
    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.seed = task, seed
        self.notes = () if task.note is None else (task.note,)
        self.environments = task.open(1, seed, "collect")
        super().__init__(_OneOf(self.task, self.environments), seed)

    @property
    def observation_rows(self) -> int | None:
        return self.task.observation_rows

    def score(self, policy: Policy, episodes: int) -> float:
        return play_episodes(self.task, policy, episodes, self.seed).mean

    def evaluate(self, policy: Policy, split: str, what_if: WhatIf | None = None) -> Evaluation:
        if what_if:
            raise ConfigError("only an evaluation on a market can be made under other circumstances.")
        return evaluate_control(self.task, policy, seed=self.seed)

    def champion(self, policy: Policy) -> Champion:
        return ControlChampion(policy, self.task.observation_size, *self.task.action_bounds, self.task)

    def close(self) -> None:
        self.task.close()

    def _environment_state(self) -> dict[str, Any]:
        return self.environments.state_dict()

    def _load_environment_state(self, state: dict[str, Any]) -> None:
        self.environments.load_state_dict(state)


class TradingProblem(Problem):
    """The score is the log return over the validation days, however many episodes are asked for; every one is a trial."""

    def __init__(
        self,
        config: TradingConfig,
        seed: int,
        evaluations: Evaluations = list,
        data: Path | None = None,
        holdouts: HoldoutLedger | None = None,
    ) -> None:
        self.market, self.config, self.seed = load_market(config, seed, kept=data), config, seed
        self.evaluations, self.holdouts = evaluations, holdouts
        self.data_fingerprint = self.market.fingerprint
        self.rounded_data_fingerprint = self.market.rounded_fingerprint
        self.core = TradingCore(self.market, config, 1)
        self.ledger = trial_ledger(self.market, config, np.arange(self.market.validation.days - 1))
        self.trading = TradingEnv(self.market, config)
        self.trading.reset(seed=seeds.integer(seed, "collect") % 2**31)
        super().__init__(FlatObservation(self.trading), seed)

    def owners(self) -> dict[str, int]:
        return {"market": self.market.nbytes, "trial_ledger": self.ledger.nbytes}

    def score(self, policy: Policy, episodes: int) -> float:
        earned = self._validated(policy)
        self.ledger.record(self.ledger.trials, earned)
        return float(earned.sum())

    def evaluate(self, policy: Policy, split: str, what_if: WhatIf | None = None) -> Evaluation:
        # Champions that act alike on the validation days count as one.
        name = hashlib.sha256(self._validated(policy).tobytes()).hexdigest()
        return evaluate_market_policy(
            self.market, self.config, self._on(policy), split, what_if=what_if,
            seed=self.seed, champion_fingerprint=name, ledger=self.ledger, records=self.evaluations(),
            holdouts=self.holdouts,
        )  # fmt: skip

    def champion(self, policy: Policy) -> Champion:
        return MarketChampion(self.market, self.config, self._on(policy))

    def _on(self, policy: Policy) -> Callable[[MarketData], MarketPolicy]:
        """The policy on this market, or on one with other days."""
        return lambda market: flat_policy(policy, TradingCore(market, self.config, 1))

    def own_data(self) -> bytes | None:
        return kept_prices(self.market)

    def _validated(self, policy: Policy) -> FloatArray:
        """Daily log returns on the validation days. -> [1, day]"""
        return run_policy(self.core, flat_policy(policy, self.core), self.market.validation).log_returns

    def close(self) -> None:
        self.env.close()

    def _environment_state(self) -> dict[str, Any]:
        random = self.trading.np_random.bit_generator.state
        return {"core": self.trading.core.state_dict(), "random": random, "ledger": self.ledger.state_dict()}

    def _load_environment_state(self, state: dict[str, Any]) -> None:
        self.trading.core.load_state_dict(state["core"])
        self.trading.np_random.bit_generator.state = state["random"]
        self.ledger.load_state_dict(state["ledger"])


class _OneOf(gymnasium.Env[Any, Any]):
    """An environment of a task. It begins its next episode by itself, so `reset` only says where it is."""

    def __init__(self, task: Task, environments: Environments) -> None:
        self.environments = environments
        self.observation_space = Box(-np.inf, np.inf, (task.observation_size,))
        self.action_space = Box(-1.0, 1.0, (task.action_size,))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        return self.environments.observation[0].copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        step = self.environments.step(action[None])
        return step.successor[0], float(step.reward[0]), bool(step.terminated[0]), bool(step.truncated[0]), {}


class _CountedReturns(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.running, self.finished = 0.0, list[float]()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.running += float(reward)
        if terminated or truncated:
            self.finished = [*self.finished, self.running][-RECENT:]
            self.running = 0.0
        return observation, reward, terminated, truncated, info
