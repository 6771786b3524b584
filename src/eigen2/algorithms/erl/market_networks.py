"""Networks on a market: what an agent decides about portfolios on given days, and what critics think of it."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.sentences import looks_back_too_far
from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import Observation
from eigen2.errors import ConfigError
from eigen2.market.data import MarketData
from eigen2.nets.encoder import (
    CausalEncoder,
    MarketTensors,
    embed_day,
    gather_inputs,
    one_by_one,
    plan_days,
)
from eigen2.nets.market import (
    POSITION,
    head,
    init_cash,
    init_head,
    mean_of_known,
    project,
    project_centred,
)
from eigen2.nets.stacked import Params, agents_in, linear
from eigen2.nets.tiles import KEPT_CELLS, RowNetwork, Rows, RowTiles, in_row_tiles

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

    def __getitem__(self, rows: slice) -> "MarketState":
        return replace(self, day=self.day[rows], holdings=self.holdings[rows], account=self.account[rows])


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
        self.tiles = RowTiles.fitting(len(market.symbols), self.symbols, alg.hidden, device)
        self.few_agents = False
        """Act with two agents at a time, which takes less memory and gives the same bits."""

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
        if self._is_wide(actor, len(state.day)):
            own = (Rows(state.holdings.unsqueeze(0)), Rows(state.account.unsqueeze(0)))
            return self._in_tiles(self._decide_rows, actor, state, *own)
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
        if self._is_wide(critic, rows):
            own = (Rows(state.holdings.unsqueeze(0)), Rows(state.account.unsqueeze(0)), Rows(seen))
            return self._in_tiles(self._value_rows, critic, state, *own)
        holdings = state.holdings.expand(agents, -1, -1, -1)
        beside = torch.cat([holdings, seen.expand(agents, rows, self.symbols, -1)], dim=-1)
        out, _ = head(critic, self._project(critic, state), beside, state.account.expand(agents, -1, -1))
        return out.squeeze(-1)

    def _project(self, params: Params, state: MarketState) -> Tensor:
        """First layer of each row `[agent, row, tradable, hidden]`."""
        embedding = self.encoder.embed(params, state.inputs, state.position)
        return project(params, embedding, state.known, self.tensors.tradable)[:, state.day]

    # Wide markets: rows in tiles

    def _is_wide(self, params: Params, rows: int) -> bool:
        return agents_in(params) * rows * len(self.market.symbols) > KEPT_CELLS

    @property
    def _days_stand_alone(self) -> bool:
        return self.encoder.layers == 0

    def _in_tiles(self, network: RowNetwork, params: Params, state: MarketState, *own: Rows) -> Tensor:
        """`network` of each row's day and portfolio. Days that stand alone are embedded in the tile."""
        if self._days_stand_alone:
            days = Rows(state.inputs.unsqueeze(0), state.position[state.day])
        else:
            days = Rows(self.encoder.embed(params, state.inputs, state.position), state.day)
            params = _head_of(params)
        return in_row_tiles(
            network, params, [days, Rows(state.known.unsqueeze(0), state.day), *own], self.tiles
        )

    def _project_rows(self, params: Params, day: Tensor, known: Tensor) -> Tensor:
        """First layer `[row, tradable, hidden]` of days `[row, symbol, ...]`, which are inputs or embeddings."""
        embedding = embed_day(params, day) if "encoder.in.w" in params else day
        return project(params, embedding.unsqueeze(1), known.unsqueeze(1), self.tensors.tradable).squeeze(1)

    def _decide_rows(
        self, params: Params, day: Tensor, known: Tensor, holdings: Tensor, account: Tensor
    ) -> Tensor:
        projected = self._project_rows(params, day, known).unsqueeze(1)
        return self._decide(params, projected, holdings.unsqueeze(1), account.unsqueeze(1)).squeeze(1)

    def _value_rows(self, params: Params, day: Tensor, known: Tensor, holdings: Tensor, account: Tensor,
                    action: Tensor) -> Tensor:  # fmt: skip
        own = torch.cat([holdings, action], dim=-1).unsqueeze(1)
        projected = self._project_rows(params, day, known).unsqueeze(1)
        return head(params, projected, own, account.unsqueeze(1))[0].squeeze(-1).squeeze(1)

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
        lookup = torch.full((len(self.market.dates),), -1, device=self.device)
        lookup[torch.as_tensor(days, device=self.device)] = torch.arange(len(days), device=self.device)
        return self.project_rows(actor, days), lookup

    def project_rows(self, actor: Params, days: npt.NDArray[np.int64]) -> Tensor:
        """First layer of `days`, which may repeat: `[agent, day, tradable, hidden]`."""
        if self._is_wide(actor, len(days)):
            return self._project_in_tiles(actor, days)
        embedding = self._embed_days(actor, days)
        known = self.tensors.mask[torch.as_tensor(days, device=self.device)]
        return project(actor, embedding, known, self.tensors.tradable)

    def _embed_days(self, actor: Params, days: npt.NDArray[np.int64]) -> Tensor:
        plan = plan_days(days, self.encoder.history)
        position = torch.as_tensor(plan.position, device=self.device)
        return self.encoder.embed(actor, gather_inputs(self.tensors, plan), position)

    def _project_in_tiles(self, actor: Params, days: npt.NDArray[np.int64]) -> Tensor:
        """The same bits as in one piece; only the layer of the means, which is small, is computed for all days together."""
        shape = (agents_in(actor), len(days), self.alg.hidden)
        mean = torch.empty(shape, device=self.device)
        out = torch.empty(*shape[:2], self.symbols, self.alg.hidden, device=self.device)
        for agent, one in enumerate(one_by_one(actor)):
            whole = None if self._days_stand_alone else self._embed_days(one, days)
            for tile in self.tiles.cut(len(days)):
                embedding = self._embed_days(one, days[tile]) if whole is None else whole[:, tile]
                known = self.tensors.mask[torch.as_tensor(days[tile], device=self.device)]
                mean[agent, tile] = centre = mean_of_known(embedding, known)[0]
                out[agent, tile] = project_centred(
                    one, embedding, centre.unsqueeze(0), self.tensors.tradable
                )[0]
        common = linear(actor, "head.mean", mean).unsqueeze(2)
        for agent in range(len(out)):
            out[agent] += common[agent]
        return out

    def act_on_window(self, actor: Params, days: Tensor, positions: Tensor, account: Tensor) -> Tensor:
        """The action of one agent after the last of `days` `[history, symbol, channel]`, for one portfolio."""
        embedding = self.encoder.embed_window(actor, days)
        known = days[-1:, :, -1] > 0.5
        projected = project(actor, embedding, known, self.tensors.tradable)
        raw = self._decide(actor, projected, positions.view(1, 1, *positions.shape), account.view(1, 1, -1))
        return self.squash(raw)[0, 0]

    def act_on(self, actor: Params, projected: Tensor, rows: Tensor, seen: Observation) -> Tensor:
        """Actions `[agent, row, ...]`, given the first layer of some days and which of them `[row]` the portfolios are on."""
        holdings, account = self._portfolio(seen, agents_in(actor))
        few = agents_in(actor)
        if self._is_wide(actor, len(rows)):
            few = max(2, KEPT_CELLS // (len(rows) * len(self.market.symbols)))
        few = min(few, 2) if self.few_agents else few
        raw = [
            self._decide(some, projected[chosen][:, rows], holdings[chosen], account[chosen])
            for chosen in agents_at_a_time(agents_in(actor), few)
            for some in [{name: value[chosen] for name, value in actor.items()}]
        ]
        return self.squash(torch.cat(raw))

    def _portfolio(self, seen: Observation, agents: int) -> tuple[Tensor, Tensor]:
        holdings = torch.as_tensor(seen.positions, device=self.device).float()
        account = torch.as_tensor(seen.account, device=self.device)
        return holdings.view(agents, -1, *holdings.shape[1:]), account.view(agents, -1, account.shape[1])


def _head_of(params: Params) -> Params:
    return {name: value for name, value in params.items() if not name.startswith("encoder.")}


def agents_at_a_time(agents: int, few: int) -> list[slice]:
    """Groups of at least `few` agents: a last group that is smaller goes with the one before it."""
    starts = range(0, max(agents - few, 0) + 1, few)
    return [slice(start, stop) for start, stop in pairwise([*starts, agents])]


def make_encoder(alg: ERLConfig, env: TradingConfig, channels: int) -> CausalEncoder:
    encoder = CausalEncoder(channels, alg.hidden, alg.encoder_layers)
    if encoder.history > env.window:
        raise ConfigError(looks_back_too_far(alg.encoder_layers, encoder.history, env.window))
    return encoder
