"""A trained actor as a plain policy, for backtests and decisions.

Days are encoded when they are first needed, in blocks that begin at multiples of `BLOCK` and always have that many rows: what
an actor does on a day is the same to the last bit, however many days the market has before and after.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigen2.algorithms.erl.market_networks import MarketNetworks
from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import Observation
from eigen2.evaluation.backtest import Policy
from eigen2.market.data import MarketData
from eigen2.nets.stacked import Params

BLOCK = 64


def market_policy(task: MarketNetworks, actor: Params) -> Policy:
    """The policy of one agent, on any day of the task's market."""
    actor = {name: value.to(task.device) for name, value in actor.items()}
    blocks: dict[int, Tensor] = {}

    def block(number: int) -> Tensor:
        """First layer of the days of a block `[1, BLOCK, tradable, hidden]`; the market's last day fills up the last block."""
        if number not in blocks:
            days = np.minimum(number * BLOCK + np.arange(BLOCK), len(task.market.dates) - 1)
            blocks[number] = task.project_rows(actor, days)
        return blocks[number]

    @torch.no_grad()
    def policy(seen: Observation, market: MarketData, config: TradingConfig) -> npt.NDArray[np.floating]:
        numbers, which = np.unique(seen.day // BLOCK, return_inverse=True)
        projected = torch.cat([block(int(number)) for number in numbers], dim=1)
        rows = torch.as_tensor(which * BLOCK + seen.day % BLOCK, device=task.device).long()
        return np.asarray(task.act_on(actor, projected, rows, seen)[0].cpu().numpy())

    return policy
