"""A trained actor as a plain policy, for backtests."""

import numpy as np
import numpy.typing as npt
import torch

from eigen2.algorithms.erl.market_networks import MarketNetworks
from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import Observation
from eigen2.evaluation.backtest import Policy
from eigen2.market.data import MarketData, Split
from eigen2.nets.stacked import Params


def market_policy(task: MarketNetworks, actor: Params, splits: tuple[Split, ...]) -> Policy:
    """The policy of one agent on the given splits; their days are encoded once, when first needed."""
    days = np.unique(np.concatenate([np.arange(split.start, split.stop) for split in splits]))
    actor = {name: value.to(task.device) for name, value in actor.items()}
    with torch.no_grad():
        projected, lookup = task.project_days(actor, days)

    @torch.no_grad()
    def policy(seen: Observation, market: MarketData, config: TradingConfig) -> npt.NDArray[np.floating]:
        action = task.act_on(actor, projected, lookup[torch.as_tensor(seen.day).long()], seen)
        return np.asarray(action[0].cpu().numpy())

    return policy
