"""Evaluations under other circumstances: other costs, other days, newer prices, a benchmark of the user's own."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eigen2.envs.config import TradingConfig
from eigen2.errors import ConfigError
from eigen2.evaluation.backtest import Strategy
from eigen2.evaluation.calendar import named_day
from eigen2.evaluation.own_benchmark import own_benchmark
from eigen2.evaluation.result import WhatIf
from eigen2.market.check import read_prices, rules_of
from eigen2.market.continuation import continued
from eigen2.market.data import MarketData, Split

FREE = (
    "fee_bp", "slippage_bp", "delisting_penalty", "max_new_positions", "max_holding_days", "settlement_days",
    "threshold", "target_low", "target_high", "target_fill", "position_fraction",
)  # fmt: skip
"""Keys of `env` that a trained champion can be evaluated with other values of: it does not see them."""


@dataclass(frozen=True)
class Circumstances:
    """What a champion is evaluated on."""

    market: MarketData
    config: TradingConfig
    benchmarks: tuple[Strategy, ...]
    facts: dict[str, Any]
    """What is not as it was in training."""

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.facts:
            return ()
        words = [f"{key} is {value}" for key, value in self.facts.get("settings", {}).items()]
        words += [f"{key} {value}" for key, value in self.facts.items() if key in ("data", "benchmark")]
        words += [f"days {' to '.join(self.facts['days'])}"] if "days" in self.facts else []
        return (f"what if: {', '.join(words)}",)


def under(what_if: WhatIf, market: MarketData, config: TradingConfig, split: str) -> Circumstances:
    facts: dict[str, Any] = {}
    if what_if.settings:
        facts["settings"] = {f"env.{key}": value for key, value in what_if.settings.items()}
        config = _changed(config, what_if)
    if what_if.data is not None:
        facts["data"] = str(what_if.data)
        market = continued(market, read_prices(what_if.data, rules_of(config))[0], str(what_if.data))
    if what_if.first is not None or what_if.last is not None:
        days = _days(market, what_if, split)
        facts["days"] = [str(market.dates[days.start]), str(market.dates[days.stop - 1])]
        holds_out = split == "holdout"
        market = replace(market, holdout=days) if holds_out else replace(market, validation=days)
    benchmarks: tuple[Strategy, ...] = ()
    if what_if.benchmark is not None:
        facts["benchmark"] = str(what_if.benchmark)
        benchmarks = (own_benchmark(what_if.benchmark, market, config),)
    return Circumstances(market, config, benchmarks, facts)


def _changed(config: TradingConfig, what_if: WhatIf) -> TradingConfig:
    fixed = [key for key in what_if.settings if key not in FREE]
    if fixed:
        raise ConfigError(
            f"env.{fixed[0]} is part of what the champion was trained with; a what-if can change "
            f"{', '.join(f'env.{key}' for key in FREE)}"
        )
    return config.model_copy(update=dict(what_if.settings))


def _days(market: MarketData, what_if: WhatIf, split: str) -> Split:
    whole = market.split(split)
    first, last = whole.start, whole.stop - 1
    if what_if.first is not None:
        first = named_day(market, what_if.first)
        first += int(market.dates[first] < np.datetime64(what_if.first, "D"))
    if what_if.last is not None:
        last = named_day(market, what_if.last)
    if first < whole.start or last >= whole.stop or first >= last:
        raise ConfigError(
            f"the days {what_if.first or ''} to {what_if.last or ''} are not among the {split} days, "
            f"{market.dates[whole.start]} to {market.dates[whole.stop - 1]}"
        )
    return Split(split, first, last + 1)
