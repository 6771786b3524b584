"""ERL's champions by themselves: of a run that is open, or from the files of an export."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from eigen2.algorithms.contract import CHAMPION, Champion
from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.control import actor_policy
from eigen2.algorithms.erl.market_networks import MarketNetworks
from eigen2.algorithms.erl.policy import market_policy
from eigen2.algorithms.exports import read_champion
from eigen2.envs.config import TradingConfig
from eigen2.envs.control.environments import Task
from eigen2.errors import DamagedStateError
from eigen2.evaluation.backtest import Policy
from eigen2.evaluation.champion import ControlChampion, MarketChampion
from eigen2.market.data import MarketData
from eigen2.market.load import load_market
from eigen2.nets.stacked import Params

PRICES = "prices.parquet"
"""The days the champion was trained and evaluated on, if they came from a file."""
CPU = torch.device("cpu")


def policy_on(networks: MarketNetworks, actor: Params) -> Callable[[MarketData], Policy]:
    """The agent's policy on the market it was trained on, or on one with other days."""

    def on(market: MarketData) -> Policy:
        if market.features is networks.market.features:
            return market_policy(networks, actor)
        return market_policy(MarketNetworks(market, networks.env, networks.alg, networks.device), actor)

    return on


def market_champion(networks: MarketNetworks, actor: Params) -> MarketChampion:
    return MarketChampion(networks.market, networks.env, policy_on(networks, actor))


def control_champion(
    actor: Params, low: npt.NDArray[Any], high: npt.NDArray[Any], task: Task | None = None
) -> ControlChampion:
    return ControlChampion(actor_policy(actor), actor["0.w"].shape[1], low, high, task)


def load_champion(directory: Path) -> Champion:
    config, weights, facts = read_champion(directory)
    actor = {name: value.unsqueeze(0) for name, value in weights.items()}
    env, alg = config.env, config.alg
    assert isinstance(alg, ERLConfig)
    if not isinstance(env, TradingConfig):
        low, high = (
            np.array(facts["action"][end], dtype=facts["action"]["dtype"]) for end in ("low", "high")
        )
        return control_champion(actor, low, high)
    prices = directory / PRICES
    market = load_market(env, config.seed, kept=prices if prices.is_file() else None)
    rounded = market.rounded_fingerprint
    same = rounded and facts.get("rounded_data_fingerprint", rounded) == rounded
    if market.fingerprint != facts["data_fingerprint"] and not same:
        raise DamagedStateError(f"the prices are not those that {directory / CHAMPION} was trained on")
    return market_champion(MarketNetworks(market, env, alg, CPU), actor)
