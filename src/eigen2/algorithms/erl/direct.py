"""The direct gradient: prices do not react to the agent, so what its positions earn is differentiable in its actions.

Runs of consecutive days are drawn from replay. The actor decides anew on the recorded observations, and the books are
kept in torch, starting from the recorded holdings. The gradient flows through positions and costs, not through the
observations. With v the weights before a day, o and i its overnight and intraday returns, w the weights wanted,

    v' = v (1 + o) / g,  g = 1 + v.o ;   cost = rate * |w - v'| ;   h = 1 + w.i ;   next v = w (1 + i) / h
    growth = log g + log(1 - cost) + log h

`weights` wants w = softmax(logits). `orders` have jumps, which are rounded off: with coefficients c, a holding is kept
with probability sigmoid(c / s), and the one new position of the day is shared out by softmax over the symbols that
are not held, if their coefficients reach the threshold; each full position is one slot of equity. `original` keeps
what it holds. Targets and the time limit are left out: the real core decides what the agent is worth, this only says in
which direction to go.
"""

import numpy as np
import torch
from torch import Tensor

from eigen2.algorithms.erl.market_networks import MarketNetworks
from eigen2.envs.trading.costs import CostModel
from eigen2.envs.trading.price_tables import price_tables
from eigen2.nets.stacked import Params, agents_in
from eigen2.replay import Replay

SOFTNESS = 0.2
"""Width s over which an order's jump is rounded off."""


class DirectGradient:
    def __init__(self, task: MarketNetworks) -> None:
        self.task = task
        tables = price_tables(task.market)
        with np.errstate(divide="ignore", invalid="ignore"):
            overnight = tables.fill[1:] / tables.mark[:-1] - 1.0
            intraday = tables.mark / tables.fill - 1.0
        overnight = np.concatenate([np.zeros((1, tables.symbols)), overnight])
        self.overnight, self.intraday = (
            torch.as_tensor(np.nan_to_num(table, posinf=0.0).astype(np.float32), device=task.device)
            for table in (overnight, intraday)
        )
        self.costs = CostModel.of(task.env)
        self.days = task.alg.run_days(task.env.trading_days)

    def draw(self, replay: Replay, runs: int, length: int) -> dict[str, Tensor]:
        """Observations `[day, run, ...]` of `length` days and the one after."""
        return replay.sample_sequences(runs, length).observation

    def loss(self, actor: Params, drawn: dict[str, Tensor], chosen: slice) -> Tensor:
        """Minus the mean daily log growth, in per cent, of each agent `[agent]`."""
        observation = {name: value[:, chosen] for name, value in drawn.items()}
        length, runs = len(observation["day"]) - 1, observation["day"].shape[1]
        seen = {name: value[:-1].flatten(0, 1) for name, value in observation.items()}
        action = self.task.squash(self.task.policy(actor, self.task.state(seen)))
        action = action.view(agents_in(actor), length, runs, *action.shape[2:])
        day = observation["day"].to(self.task.device).long()
        held = observation["positions"][0, :, :, 0].to(self.task.device).float().unsqueeze(0)
        growth = torch.zeros(agents_in(actor), runs, device=self.task.device)
        for step, asked in enumerate(action.unbind(1)):
            held, gain = grow(held, self.overnight[day[step] + 1])
            wanted = self._wanted(asked, held)
            cost = self.costs.total((wanted - held).abs())
            held, during = grow(wanted, self.intraday[day[step] + 1])
            growth = growth + gain + torch.log1p(-cost) + during
        # What was bought on the last day is paid for; its first night counts too.
        last = (day[-1] + 1).clamp(max=len(self.overnight) - 1)
        return -100.0 * (growth + grow(held, self.overnight[last])[1]).mean(1) / length

    def _wanted(self, action: Tensor, held: Tensor) -> Tensor:
        if self.task.weights:
            return torch.softmax(action, dim=-1)[..., :-1]
        slot = self.task.env.position_fraction
        coefficient = action[..., 0]
        # With the original rule a position ends at its target or time limit, never because the agent says so.
        original = self.task.env.actions == "original"
        kept = held if original else held * torch.sigmoid(coefficient / SOFTNESS)
        free = (1.0 - held / slot).clamp(min=0.0)
        share = torch.softmax(coefficient / SOFTNESS + torch.log(free + 1e-4), dim=-1)
        asks = torch.sigmoid((coefficient - self.task.env.threshold) / SOFTNESS)
        room = (1.0 - kept.sum(-1, keepdim=True)).clamp(min=0.0)
        return kept + share * asks * free * torch.minimum(room, torch.full_like(room, slot))


def grow(held: Tensor, change: Tensor) -> tuple[Tensor, Tensor]:
    """Weights after prices change, and the log growth of equity."""
    gain = 1.0 + (held * change).sum(-1)
    return held * (1.0 + change) / gain.unsqueeze(-1), gain.log()
