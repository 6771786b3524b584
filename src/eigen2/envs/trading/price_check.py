"""`eigen2 data check` with the settings of a run: what of its episodes does not fit these prices."""

from dataclasses import replace
from pathlib import Path

from eigen2.envs.config import EnvConfig, TradingConfig
from eigen2.envs.trading.episodes import episode_steps
from eigen2.errors import ConfigError
from eigen2.market.price_check import PriceCheck, check_prices


def check_for_trading(file: Path, config: EnvConfig) -> PriceCheck:
    """What `check_prices` finds, and whether episodes and evaluations fit into the splits."""
    if not isinstance(config, TradingConfig):
        raise ConfigError("`data check` reads prices; use it with env=trading.")
    found = check_prices(file, config)
    if not found.facts:
        return found
    facts = {**found.facts, "delisting_penalty": config.delisting_penalty}
    return replace(found, facts=facts, refused=[*found.refused, *_unfit(found.split_days, config)])


def _unfit(days: dict[str, int], config: TradingConfig) -> list[str]:
    """Episodes take place on training days; a whole split is played to evaluate it."""
    refused = []
    steps = episode_steps(config)
    settlement = steps - config.trading_days
    if days and days["train"] <= steps:
        refused.append(
            f"an episode takes {steps + 1} days, but there are {days['train']} to train on: lower env.trading_days "
            "or env.settlement_days, or use more data"
        )
    refused += [
        f"{name} has {days[name]} days, too few for {settlement} settlement days; raise env.{name}_days or lower "
        "env.settlement_days"
        for name in ("validation", "holdout")
        if name in days and days[name] - 1 - settlement < 1
    ]
    return refused
