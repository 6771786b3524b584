"""ERL on a market: many agents over many windows in one trading core, and critics factored by symbol."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import Observation, TradingCore
from eigen2.erl.config import ERLConfig
from eigen2.erl.task import Batch, Episodes, FloatArray, Rollout, Transitions
from eigen2.errors import ConfigError
from eigen2.market.data import MarketData, Split
from eigen2.nets.encoder import (
    CausalEncoder,
    CnnLstmEncoder,
    Encoder,
    MarketTensors,
    gather_inputs,
    plan_days,
)
from eigen2.nets.market import POSITION, head, init_cash, init_head, project
from eigen2.nets.stacked import Params, agents_in, linear
from eigen2.replay import Field, Replay, Schema

PER_CENT = 100.0
"""Daily contributions are about 1e-3; critics see them in per cent."""
LOGIT_LIMIT = 10.0
FIRST_OPINION = 0.3
"""Size of what tells symbols apart in an untrained agent's orders, beside a coefficient that asks for all of them."""


@dataclass(frozen=True)
class MarketState:
    """Portfolios, each on a day."""

    inputs: Tensor
    """[time, symbol, channel] of the planned days."""
    position: Tensor
    """[day] of the wanted days on the time axis."""
    known: Tensor
    """[day, symbol]"""
    day: Tensor
    """[row] which wanted day each portfolio is on."""
    holdings: Tensor
    """[row, tradable, POSITION]"""
    account: Tensor
    """[row, 5]"""


class MarketTask:
    def __init__(self, market: MarketData, env: TradingConfig, alg: ERLConfig, device: torch.device) -> None:
        self.market, self.env, self.alg, self.device = market, env, alg, device
        self.weights = env.actions == "weights"
        inputs = np.concatenate([market.features, market.mask[:, :, None].astype(np.float32)], axis=2)
        self.tensors = MarketTensors(
            torch.as_tensor(inputs, device=device),
            torch.tensor(market.mask, device=device),
            torch.tensor(market.tradable, device=device),
        )
        self.symbols = len(market.tradable)
        self.encoder = make_encoder(alg, env, self.tensors.channels)
        self._cores: dict[int, TradingCore] = {}
        for split in (market.train, market.validation):
            self._last_start(split)

    # Networks

    def init_actor(self, agents: int, rng: torch.Generator) -> Params:
        """Untrained agents hold a bit of everything: in cash there would be nothing to learn from."""
        params: Params = {}
        self.encoder.init(params, agents, rng)
        if self.weights:
            init_head(params, agents, self.alg.hidden, POSITION, 1, rng)
            init_cash(params, agents, self.alg.hidden, rng)
        else:
            init_head(params, agents, self.alg.hidden, POSITION, 2, rng, gain=FIRST_OPINION)
            params["head.out.b"][..., 0] = math.atanh(min((1.0 + self.env.threshold) / 2.0, 0.99))
        return params

    def init_critic(self, agents: int, rng: torch.Generator) -> Params:
        params: Params = {}
        self.encoder.init(params, agents, rng)
        init_head(params, agents, self.alg.hidden, POSITION + (1 if self.weights else 2), 1, rng)
        return params

    def policy(self, actor: Params, state: MarketState) -> Tensor:
        return self._decide(actor, self._project(actor, state), state.holdings, state.account)

    def squash(self, raw: Tensor) -> Tensor:
        if self.weights:
            return LOGIT_LIMIT * torch.tanh(raw / LOGIT_LIMIT)
        return torch.stack([torch.tanh(raw[..., 0]), torch.sigmoid(raw[..., 1])], dim=-1)

    def smooth(self, action: Tensor, noise: Tensor) -> Tensor:
        if self.weights:
            return (action + LOGIT_LIMIT * noise).clamp(-LOGIT_LIMIT, LOGIT_LIMIT)
        action = action + noise
        return torch.stack([action[..., 0].clamp(-1, 1), action[..., 1].clamp(0, 1)], dim=-1)

    def value(self, critic: Params, state: MarketState, action: Tensor) -> Tensor:
        """One value per symbol. A weight is seen in units of the equal one."""
        seen = action
        if self.weights:
            seen = torch.softmax(action, dim=-1)[..., :-1].unsqueeze(-1) * self.symbols
        agents, rows = agents_in(critic), len(state.day)
        holdings = state.holdings.expand(agents, -1, -1, -1)
        own = torch.cat([holdings, seen.expand(agents, rows, self.symbols, -1)], dim=-1)
        out, _ = head(critic, self._project(critic, state), own, state.account.expand(agents, -1, -1))
        return out.squeeze(-1)

    def _project(self, params: Params, state: MarketState) -> Tensor:
        """First layer of each row `[agent, row, tradable, hidden]`."""
        embedding = self.encoder.embed(params, state.inputs, state.position)
        return project(params, embedding, state.known, self.tensors.tradable)[:, state.day]

    def _decide(self, actor: Params, projected: Tensor, holdings: Tensor, account: Tensor) -> Tensor:
        agents = agents_in(actor)
        holdings = holdings.expand(agents, *holdings.shape[-3:])
        out, pooled = head(actor, projected, holdings, account.expand(agents, *account.shape[-2:]))
        if self.weights:
            return torch.cat([out.squeeze(-1), linear(actor, "head.cash", pooled)], dim=-1)
        return out

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
                rng: np.random.Generator | None = None) -> Rollout:  # fmt: skip
        return self._play(actor, episodes, self.env.trading_days, record=record, noise=noise, rng=rng)

    def validated_days(self) -> npt.NDArray[np.int64]:
        """[day] of the validation split, counted from its second one, on which a validation episode runs."""
        return np.unique(self._validated())

    def stitch(self, daily: FloatArray) -> FloatArray:
        """Validation episodes `[agent, episode, step]` -> log returns `[agent, day]` on the validated days.

        Episodes overlap: a day earns what capital split evenly between the episodes that run on it earns.
        """
        days, column = np.unique(self._validated(), return_inverse=True)
        shares = np.zeros((column.size, len(days)))
        shares[np.arange(column.size), column.ravel()] = 1.0
        growth = np.exp(daily).reshape(len(daily), -1) @ (shares / shares.sum(0))
        return np.asarray(np.log(growth))

    def _validated(self) -> npt.NDArray[np.int64]:
        """[episode, step] the day each step of a validation episode ends on, as in `validated_days`."""
        steps = np.arange(self.env.trading_days + self.settlement_days)
        return (self.validation_episodes() - self.market.validation.start)[:, None] + steps

    @torch.no_grad()
    def _play(self, actor: Params, starts: Episodes, trading_days: int, *, record: bool = False,
              noise: float = 0.0, rng: np.random.Generator | None = None) -> Rollout:  # fmt: skip
        agents, episodes = agents_in(actor), len(starts)
        core = self._core(agents * episodes)
        seen = core.reset(np.tile(starts, agents), trading_days)
        steps = trading_days + self.settlement_days
        actor = {name: value.to(self.device) for name, value in actor.items()}
        cache, lookup = self.project_days(actor, np.unique(starts[:, None] + np.arange(steps + 1)))
        rewards, equity = np.empty((steps, agents * episodes)), np.empty((steps + 1, agents * episodes))
        equity[0] = core.equity
        log = _Recorder() if record else None
        for step in range(steps):
            now = cache[:, lookup[seen.day[:episodes]]]
            action = self.squash(self._decide(actor, now, *self._portfolio(seen, agents)))
            if noise and rng is not None:
                drawn = rng.normal(0.0, noise, size=tuple(action.shape)).astype(np.float32)
                action = self.smooth(action, torch.as_tensor(drawn, device=self.device))
            acted = action.flatten(0, 1).cpu().numpy()
            result = core.step(acted)
            if log is not None:
                log.add(seen, acted, result.reward, result.terminated, result.contribution)
            rewards[step], equity[step + 1] = result.reward, result.equity
            seen = result.observation
        return Rollout(
            returns=rewards.sum(0).reshape(agents, episodes),
            daily=np.diff(np.log(equity), axis=0).T.reshape(agents, episodes, steps),
            steps=steps * agents * episodes,
            transitions=() if log is None else (log.finish(seen),),
        )

    def project_days(self, actor: Params, days: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """First layer of all `days` at once `[agent, day, tradable, hidden]`, and a table market day -> its row."""
        plan = plan_days(days, self.encoder.history)
        position = torch.as_tensor(plan.position, device=self.device)
        embedding = self.encoder.embed(actor, gather_inputs(self.tensors, plan), position)
        known = self.tensors.mask[torch.as_tensor(days, device=self.device)]
        lookup = torch.full((len(self.market.dates),), -1, device=self.device)
        lookup[torch.as_tensor(days, device=self.device)] = torch.arange(len(days), device=self.device)
        return project(actor, embedding, known, self.tensors.tradable), lookup

    def act(self, actor: Params, projected: Tensor, seen: Observation) -> npt.NDArray[np.float32]:
        """Actions of one agent, given its first layer of the portfolios' days `[1, row, tradable, hidden]`."""
        action = self.squash(self._decide(actor, projected, *self._portfolio(seen, 1)))
        return np.asarray(action[0].cpu().numpy())

    def _portfolio(self, seen: Observation, agents: int) -> tuple[Tensor, Tensor]:
        holdings = torch.as_tensor(seen.positions, device=self.device).float()
        account = torch.as_tensor(seen.account, device=self.device)
        return holdings.view(agents, -1, *holdings.shape[1:]), account.view(agents, -1, account.shape[1])

    def _core(self, batch: int) -> TradingCore:
        """One core per batch size, kept for the whole run."""
        if batch not in self._cores:
            self._cores[batch] = TradingCore(self.market, self.env, batch)
        return self._cores[batch]

    def _last_start(self, split: Split) -> int:
        """The last day on which an episode that ends inside the split can start."""
        last = split.stop - 1 - self.env.trading_days - self.settlement_days
        if last < split.start:
            raise ConfigError(
                f"An episode of {self.env.trading_days} + {self.settlement_days} days does not fit into the "
                f"{split.days} {split.name} days; lower env.trading_days or give more days."
            )
        return last

    # Learning

    def schema(self) -> Schema:
        n = self.symbols
        action = (n + 1,) if self.weights else (n, 2)
        return Schema(
            observation=(Field("day", (), "int32"), Field("positions", (n, POSITION), "float16"), Field("account", (5,))),
            step=(
                Field("action", action),
                Field("reward"),
                Field("contribution", (n,)),
                Field("terminated", (), "bool"),
                Field("truncated", (), "bool"),
            ),
            summed=("reward", "contribution"),
        )  # fmt: skip

    def batch(self, replay: Replay) -> Batch:
        """Transitions with n-step contributions; in runs of consecutive days where windows are worth sharing."""
        alg = self.alg
        if self.encoder.history == 1:
            drawn = replay.sample(alg.batch, n_step=alg.n_step, gamma=alg.gamma)
        else:
            length = min(alg.run_length, alg.batch)
            runs = replay.sample_sequences(alg.batch // length, length)
            drawn = replay.transitions(runs.index.reshape(-1), n_step=alg.n_step, gamma=alg.gamma)
        return Batch(
            state=self.state(drawn.observation),
            action=drawn.step["action"].to(self.device),
            reward=PER_CENT * drawn.step["contribution"].to(self.device),
            next_state=self.state(drawn.next_observation),
            discount=drawn.discount.to(self.device).unsqueeze(1),
        )

    def state(self, observation: dict[str, Tensor]) -> MarketState:
        days, row = np.unique(observation["day"].numpy().astype(np.int64), return_inverse=True)
        plan = plan_days(days, self.encoder.history)
        return MarketState(
            inputs=gather_inputs(self.tensors, plan),
            position=torch.as_tensor(plan.position, device=self.device),
            known=self.tensors.mask[torch.as_tensor(days, device=self.device)],
            day=torch.as_tensor(row, device=self.device),
            holdings=observation["positions"].to(self.device).float(),
            account=observation["account"].to(self.device).float(),
        )


class _Recorder:
    """Collects the steps of a rollout, time-major."""

    def __init__(self) -> None:
        self._rows: list[dict[str, npt.NDArray[Any]]] = []

    def add(self, seen: Observation, action: npt.NDArray[Any], reward: npt.NDArray[Any],
            terminated: npt.NDArray[Any], contribution: npt.NDArray[Any]) -> None:  # fmt: skip
        self._rows.append({
            **_fields(seen), "action": action, "reward": reward.astype(np.float32), "contribution": contribution,
            "terminated": terminated, "truncated": np.zeros_like(terminated),
        })  # fmt: skip

    def finish(self, seen: Observation) -> Transitions:
        steps = {name: np.stack([row[name] for row in self._rows]) for name in self._rows[0]}
        return Transitions(steps, _fields(seen))


def _fields(seen: Observation) -> dict[str, npt.NDArray[Any]]:
    return {"day": seen.day, "positions": seen.positions, "account": seen.account}


def make_encoder(alg: ERLConfig, env: TradingConfig, channels: int) -> Encoder:
    if alg.encoder == "cnn_lstm":
        return CnnLstmEncoder(channels, alg.hidden, env.window)
    encoder = CausalEncoder(channels, alg.hidden, alg.encoder_layers)
    if encoder.history > env.window:
        raise ConfigError(
            f"alg.encoder_layers={alg.encoder_layers} looks back {encoder.history} days, more than env.window={env.window}; "
            f"use at most {env.window.bit_length() - 1} layers or a longer window."
        )
    return encoder
