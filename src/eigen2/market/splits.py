"""train | embargo | validation | embargo | holdout, in calendar order."""

from typing import Final

from eigen2.errors import DataError
from eigen2.market.config import MarketConfig
from eigen2.market.data import Split
from eigen2.market.features import lookback
from eigen2.market.frequency import EXCHANGE, Frequency

MIN_TRAINING_DAYS: Final = 20


def history_days(config: MarketConfig) -> int:
    """Days before the first decision: a full window, and every feature warmed up."""
    return max([config.window - 1, *(lookback(name) for name in config.features)])


def days_needed(config: MarketConfig) -> int:
    held_out = config.validation_days + config.holdout_days + 2 * config.embargo_days
    return history_days(config) + MIN_TRAINING_DAYS + held_out


def make_splits(
    days: int, config: MarketConfig, name: str, frequency: Frequency = EXCHANGE
) -> tuple[Split, Split, Split]:
    """Train, validation and holdout; everything not held out is training.

    The days before `train.start` are history: windows look back on them, no decision is taken there.
    """
    if days < days_needed(config):
        raise DataError(too_few_days(days, config, name, frequency))
    holdout = Split("holdout", days - config.holdout_days, days)
    stop = holdout.start - config.embargo_days
    validation = Split("validation", stop - config.validation_days, stop)
    train = Split("train", history_days(config), validation.start - config.embargo_days)
    return train, validation, holdout


def too_few_days(days: int, config: MarketConfig, name: str, frequency: Frequency = EXCHANGE) -> str:
    year = frequency.periods_per_year
    shorter = (
        f" (a year has {year}: env.validation_days={year} env.holdout_days={year})"
        if 10 <= year < 252
        else ""
    )
    limits = [f"env.{end}={date}" for end in ("start", "end") if (date := getattr(config, end))]
    within = f" with {' '.join(limits)}" if limits else ""
    return (
        f"{name} has {days} {frequency.period}s{within}, but {days_needed(config)} are needed: {history_days(config)} of "
        f"history, {MIN_TRAINING_DAYS} to train, {config.validation_days} to validate, {config.holdout_days} held out "
        f"and 2 x {config.embargo_days} between them; give more {frequency.period}s or lower env.window, "
        f"env.validation_days or env.holdout_days{shorter}"
    )


def length_note(config: MarketConfig, frequency: Frequency) -> str | None:
    """What lengths given in days are on a calendar that is not an exchange's daily one."""
    if frequency.periods_per_year == EXCHANGE.periods_per_year:
        return None
    lengths = {
        "window": config.window,
        "validation_days": config.validation_days,
        "holdout_days": config.holdout_days,
    }
    lengths |= {
        name: value for name in ("trading_days", "max_holding_days") if (value := getattr(config, name, None))
    }
    said = ", ".join(f"env.{name}={value} is {_years(value, frequency)}" for name, value in lengths.items())
    return (
        f"prices are {frequency.name}, so lengths count {frequency.period}s and a year has "
        f"{frequency.periods_per_year}; {said}"
    )


def _years(periods: int, frequency: Frequency) -> str:
    return f"{periods / frequency.periods_per_year:.1f} years"
