"""ERL on a market: many agents over many windows in one trading core."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.direct import DirectGradient
from eigen2.algorithms.erl.market_networks import MarketNetworks
from eigen2.algorithms.erl.schema import market_schema
from eigen2.algorithms.erl.sentences import episode_does_not_fit
from eigen2.algorithms.erl.task import Episodes, ERLTask, LearnerBatch, RolloutResult, Transitions
from eigen2.algorithms.erl.trials import MarketTrials
from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import Observation, TradingCore
from eigen2.errors import ConfigError
from eigen2.market.data import MarketData, Split
from eigen2.nets.stacked import Params, agents_in
from eigen2.replay import Replay, Schema

PER_CENT = 100.0
"""Daily contributions are about 1e-3; critics see them in per cent."""
KEPT_CORES = 16
"""More batch sizes than a run has."""


class MarketTask(MarketNetworks, ERLTask):
    def __init__(self, market: MarketData, env: TradingConfig, alg: ERLConfig, device: torch.device) -> None:
        super().__init__(market, env, alg, device)
        self.unit = "log return" if env.reward == "log_equity" else "reward"
        self._cores: dict[int, TradingCore] = {}
        self._kept_cores = KEPT_CORES
        for split in (market.train, market.validation):
            self._last_start(split)

    # Episodes

    @property
    def settlement_days(self) -> int:
        return 0 if self.weights else self.env.settlement_days

    def draw_episodes(self, count: int, rng: np.random.Generator) -> Episodes:
        train = self.market.train
        return rng.integers(train.start, self._last_start(train) + 1, size=count)

    def validation_episodes(self) -> Episodes:
        split = self.market.validation
        spaced = np.linspace(split.start, self._last_start(split), self.alg.validation_windows)
        return np.unique(spaced.round().astype(np.int64))

    def rollout(self, actor: Params, episodes: Episodes, *, record: bool = False, noise: float = 0.0,
                rng: np.random.Generator | None = None) -> RolloutResult:  # fmt: skip
        return self._play(actor, episodes, self.env.trading_days, record=record, noise=noise, rng=rng)

    @torch.no_grad()
    def _play(self, actor: Params, starts: Episodes, trading_days: int, *, record: bool = False,
              noise: float = 0.0, rng: np.random.Generator | None = None) -> RolloutResult:  # fmt: skip
        agents, episodes = agents_in(actor), len(starts)
        core = self._core(agents * episodes)
        seen = core.reset(np.tile(starts, agents), trading_days)
        steps = trading_days + self.settlement_days
        actor = {name: value.to(self.device) for name, value in actor.items()}
        cache, lookup = self.project_days(actor, np.unique(starts[:, None] + np.arange(steps + 1)))
        rewards, equity = np.empty((steps, agents * episodes)), np.empty((steps + 1, agents * episodes))
        equity[0] = core.equity
        log = _Recorder(steps) if record else None
        for step in range(steps):
            action = self.act_on(actor, cache, lookup[seen.day[:episodes]], seen)
            if noise and rng is not None:
                drawn = rng.normal(0.0, noise, size=tuple(action.shape)).astype(np.float32)
                action = self.smooth(action, torch.as_tensor(drawn, device=self.device))
            acted = action.flatten(0, 1).cpu().numpy()
            result = core.step(acted)
            if log is not None:
                log.add(seen, acted, result.reward, result.terminated, result.contribution)
            rewards[step], equity[step + 1] = result.reward, result.equity
            seen = result.observation
        return RolloutResult(
            returns=rewards.sum(0).reshape(agents, episodes),
            daily=np.diff(np.log(equity), axis=0).T.reshape(agents, episodes, steps),
            steps=steps * agents * episodes,
            transitions=() if log is None else (log.finish(seen),),
        )

    def _core(self, batch: int) -> TradingCore:
        """One core per batch size, kept for the whole run unless memory is short."""
        if batch not in self._cores:
            while len(self._cores) >= self._kept_cores:
                self._cores.pop(next(iter(self._cores)))
            self._cores[batch] = TradingCore(self.market, self.env, batch)
        return self._cores[batch]

    def drop_caches(self) -> None:
        self._cores.clear()
        self._kept_cores = 1
        self.few_agents = True

    def _last_start(self, split: Split) -> int:
        """The last day on which an episode that ends inside the split can start."""
        last = split.stop - 1 - self.env.trading_days - self.settlement_days
        if last < split.start:
            raise ConfigError(episode_does_not_fit(self.env, split.days, split.name))
        return last

    # Learning

    def schema(self) -> Schema:
        return market_schema(self.symbols, self.weights)

    def batch(self, replay: Replay) -> LearnerBatch:
        """Transitions with n-step contributions; in runs of consecutive days where windows are worth sharing."""
        alg = self.alg
        if self.encoder.history == 1:
            drawn = replay.sample(alg.batch, n_step=alg.n_step, gamma=alg.gamma)
        else:
            length = min(alg.run_length, alg.batch)
            runs = replay.sample_sequences(alg.batch // length, length)
            drawn = replay.transitions(runs.index.reshape(-1), n_step=alg.n_step, gamma=alg.gamma)
        return LearnerBatch(
            state=self.state(drawn.observation),
            action=drawn.step["action"].to(self.device),
            reward=PER_CENT * drawn.step["contribution"].to(self.device),
            next_state=self.state(drawn.next_observation),
            discount=drawn.discount.to(self.device).unsqueeze(1),
        )

    def direct_gradient(self) -> DirectGradient:
        return DirectGradient(self)

    def trials(self) -> MarketTrials:
        steps = self.env.trading_days + self.settlement_days
        return MarketTrials(self.market, self.env, self.validation_episodes(), steps)

    def owners(self) -> dict[str, int]:
        return {
            "market": self.market.nbytes,
            "market_tensors": self.tensors.nbytes,
            "environments": sum(core.nbytes for core in self._cores.values()),
        }


class _Recorder:
    """Collects the steps of a rollout, time-major, in arrays that are made once: small ones kept among the temporaries of
    every step would leave holes in memory that nothing fits into."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._taken = 0
        self._columns: dict[str, npt.NDArray[Any]] = {}

    def add(self, seen: Observation, action: npt.NDArray[Any], reward: npt.NDArray[Any],
            terminated: npt.NDArray[Any], contribution: npt.NDArray[Any]) -> None:  # fmt: skip
        row = {
            **_fields(seen), "action": action, "reward": reward.astype(np.float32), "contribution": contribution,
            "terminated": terminated, "truncated": np.zeros_like(terminated),
        }  # fmt: skip
        for name, values in row.items():
            if name not in self._columns:
                self._columns[name] = np.empty((self._steps, *values.shape), values.dtype)
            self._columns[name][self._taken] = values
        self._taken += 1

    def finish(self, seen: Observation) -> Transitions:
        assert self._taken == self._steps
        return Transitions(self._columns, _fields(seen))


def _fields(seen: Observation) -> dict[str, npt.NDArray[Any]]:
    return {"day": seen.day, "positions": seen.positions, "account": seen.account}
