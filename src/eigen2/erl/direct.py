"""The direct gradient: prices do not react to the agent, so the log growth of `weights` portfolios is differentiable.

Runs of consecutive days are drawn from replay. The actor decides anew on the recorded observations, and the books are
kept in torch: with v the weights before a day, o and i its overnight and intraday returns, w the target weights,

    v' = v (1 + o) / g,  g = 1 + v.o ;   cost = rate * |w - v'| ;   h = 1 + w.i ;   next v = w (1 + i) / h
    growth = log g + log(1 - cost) + log h

The gradient flows through weights and costs, not through the recorded observations.
"""

import numpy as np
import torch
from torch import Tensor

from eigen2.envs.trading.prices import price_tables
from eigen2.erl.market import MarketTask
from eigen2.nets.stacked import Params, agents_in
from eigen2.replay import Replay


class DirectGradient:
    def __init__(self, task: MarketTask) -> None:
        self.task = task
        tables = price_tables(task.market)
        with np.errstate(divide="ignore", invalid="ignore"):
            overnight = tables.fill[1:] / tables.mark[:-1] - 1.0
            intraday = tables.mark / tables.fill - 1.0
        known_before = np.concatenate([np.zeros((1, tables.symbols)), np.nan_to_num(overnight, posinf=0.0)])
        self.overnight = torch.as_tensor(known_before.astype(np.float32), device=task.device)
        self.intraday = torch.as_tensor(
            np.nan_to_num(intraday, posinf=0.0).astype(np.float32), device=task.device
        )
        self.rate = (task.env.fee_bp + task.env.slippage_bp) * 1e-4

    def loss(self, actor: Params, replay: Replay, runs: int, length: int) -> Tensor:
        """Minus the mean daily log growth, in per cent, of each agent `[agent]`."""
        drawn = replay.sample_sequences(runs, length)
        seen = {name: value[:-1].flatten(0, 1) for name, value in drawn.observation.items()}
        raw = self.task.policy(actor, self.task.state(seen))
        weights = torch.softmax(self.task.squash(raw), dim=-1)[..., :-1]
        weights = weights.view(agents_in(actor), length, runs, -1)
        day = drawn.observation["day"].to(self.task.device).long()
        held = drawn.observation["positions"][0, :, :, 0].to(self.task.device).float().unsqueeze(0)
        growth = torch.zeros(agents_in(actor), runs, device=self.task.device)
        for step in range(length):
            held, gain = self._overnight(held, self.overnight[day[step] + 1])
            wanted = weights[:, step]
            cost = self.rate * (wanted - held).abs().sum(-1)
            held, during = self._overnight(wanted, self.intraday[day[step] + 1])
            growth = growth + gain + torch.log1p(-cost) + during
        # What was bought on the last day is paid for; its first night counts too.
        last = (day[-1] + 2).clamp(max=len(self.overnight) - 1)
        return -100.0 * (growth + self._overnight(held, self.overnight[last])[1]).mean(1) / length

    @staticmethod
    def _overnight(held: Tensor, change: Tensor) -> tuple[Tensor, Tensor]:
        """Weights after prices change, and the log growth of equity."""
        gain = 1.0 + (held * change).sum(-1)
        return held * (1.0 + change) / gain.unsqueeze(-1), gain.log()
