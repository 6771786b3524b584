"""Networks on a market: what an agent decides about portfolios on given days, and what critics think of it."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigen2.algorithms.erl.config import ERLConfig
from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import Observation
from eigen2.errors import ConfigError
from eigen2.market.data import MarketData
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


class MarketNetworks:
    """Actors and critics factored by symbol."""

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
