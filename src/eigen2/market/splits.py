"""train | embargo | validation | embargo | holdout, in calendar order."""

from typing import Final

from eigen2.errors import DataError
from eigen2.market.config import MarketConfig
from eigen2.market.data import Split
from eigen2.market.features import lookback

MIN_TRAINING_DAYS: Final = 20


def history_days(config: MarketConfig) -> int:
    """Days before the first decision: a full window, and every feature warmed up."""
    return max([config.window - 1, *(lookback(name) for name in config.features)])


def days_needed(config: MarketConfig) -> int:
    held_out = config.validation_days + config.holdout_days + 2 * config.embargo_days
    return history_days(config) + MIN_TRAINING_DAYS + held_out


def make_splits(days: int, config: MarketConfig, name: str) -> tuple[Split, Split, Split]:
    """Train, validation and holdout; everything not held out is training.

    The days before `train.start` are history: windows look back on them, no decision is taken there.
    """
    if days < days_needed(config):
        raise DataError(too_few_days(days, config, name))
    holdout = Split("holdout", days - config.holdout_days, days)
    stop = holdout.start - config.embargo_days
    validation = Split("validation", stop - config.validation_days, stop)
    train = Split("train", history_days(config), validation.start - config.embargo_days)
    return train, validation, holdout


def too_few_days(days: int, config: MarketConfig, name: str) -> str:
    return (
        f"{name} has {days} days, but {days_needed(config)} are needed: {history_days(config)} of history, "
        f"{MIN_TRAINING_DAYS} to train, {config.validation_days} to validate, {config.holdout_days} held out and "
        f"2 x {config.embargo_days} between them; give more days or lower env.window, env.validation_days or "
        "env.holdout_days"
    )
