"""Which days an episode may start on."""

from eigen2.envs.config import TradingConfig
from eigen2.errors import ConfigError
from eigen2.market.data import MarketData


def episode_steps(config: TradingConfig, trading_days: int | None = None) -> int:
    """Steps of an episode: its trading days and, unless weights are traded, the settlement days."""
    settlement = 0 if config.actions == "weights" else config.settlement_days
    return (config.trading_days if trading_days is None else trading_days) + settlement


def episode_starts(
    market: MarketData, config: TradingConfig, split: str, trading_days: int | None = None
) -> range:
    """First decision days whose whole episode, with its last fill, lies inside the split."""
    days = market.split(split)
    steps = episode_steps(config, trading_days)
    starts = range(days.start, days.stop - steps)
    if len(starts) == 0:
        raise ConfigError(
            f"an episode takes {steps + 1} days, but the {split} split of {market.name} has {days.days}: lower "
            "env.trading_days or env.settlement_days, or use more data"
        )
    return starts
