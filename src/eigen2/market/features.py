"""Causal, stationary features of prices, and their standardisation.

A raw feature of day t is a function of prices up to day t. Each symbol's history begins at its own first known
day: columns are shifted up to a common start, so that one recursion over days serves all symbols, and shifted back.
Inside a symbol's life a missing close repeats the last known one; the result is not used on the missing day itself.
Indicators follow TA-Lib's definitions, seeds included, so they can be compared number for number.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from eigen2.errors import ConfigError
from eigen2.market.data import FloatArray
from eigen2.market.prices import Prices

CLIP: Final = 5.0
"""Standardised features are cut off at this many standard deviations."""

RSI_DAYS: Final = 14
FAST, SLOW, SIGNAL = 12, 26, 9
TRIX_DAYS: Final = 15
MEAN_DAYS: Final = 20


def lookback(name: str) -> int:
    """Days of history before the first day on which a feature is known."""
    if name.startswith("return_"):
        return int(name.removeprefix("return_"))
    return {
        "rsi": RSI_DAYS,
        "macd": SLOW - 1,
        "macd_signal": SLOW + SIGNAL - 2,
        "trix": 3 * (TRIX_DAYS - 1) + 1,
        "sma20_distance": MEAN_DAYS - 1,
        "volatility": MEAN_DAYS,
        "volume": MEAN_DAYS - 1,
    }[name]


class Aligned:
    """Prices with every symbol's first known day in row 0, gaps filled forward. Arrays [day, symbol]."""

    def __init__(self, prices: Prices) -> None:
        known = prices.mask
        self.first = np.where(known.any(axis=0), known.argmax(axis=0), 0)
        self.close = _fill_forward(self._shift_up(prices.close))
        self.volume = None if prices.volume is None else _fill_forward(self._shift_up(prices.volume))

    @cached_property
    def log_close(self) -> FloatArray:
        return np.log(self.close)

    @cached_property
    def macd(self) -> FloatArray:
        """EMA(12) - EMA(26); the fast one starts on the slow one's first day, as in TA-Lib."""
        slow = ema(self.close, SLOW)
        fast = ema(self.close, FAST, start=SLOW - FAST)
        return fast - slow

    def _shift_up(self, array: FloatArray) -> FloatArray:
        out = array.copy()
        for column in np.flatnonzero(self.first):
            start = self.first[column]
            out[:-start, column] = array[start:, column]
            out[-start:, column] = np.nan
        return out

    def shift_back(self, array: FloatArray) -> FloatArray:
        """From aligned rows to calendar days, in place; NaN before a symbol's first day."""
        for column in np.flatnonzero(self.first):
            start = self.first[column]
            array[start:, column] = array[:-start, column].copy()
            array[:start, column] = np.nan
        return array


def _fill_forward(array: FloatArray) -> FloatArray:
    """Repeats the last known value of a column, in place; leading NaN stay."""
    for column in np.flatnonzero(~np.isfinite(array).all(axis=0)):
        row = np.where(np.isfinite(array[:, column]), np.arange(len(array)), 0)
        array[:, column] = array[np.maximum.accumulate(row), column]
    return array


def ema(values: FloatArray, span: int, start: int = 0) -> FloatArray:
    """Exponential mean with k = 2 / (span + 1), seeded by the plain mean of rows [start, start + span)."""
    out = np.full_like(values, np.nan)
    seed = start + span - 1
    if seed >= len(values):
        return out
    k = 2.0 / (span + 1.0)
    level = values[start : seed + 1].mean(axis=0)
    out[seed] = level
    for day in range(seed + 1, len(values)):
        level = level + k * (values[day] - level)
        out[day] = level
    return out


def wilder_mean(values: FloatArray, span: int, start: int) -> FloatArray:
    """Wilder's mean, k = 1 / span, seeded by the plain mean of rows [start, start + span)."""
    out = np.full_like(values, np.nan)
    seed = start + span - 1
    if seed >= len(values):
        return out
    level = values[start : seed + 1].mean(axis=0)
    out[seed] = level
    for day in range(seed + 1, len(values)):
        level = (level * (span - 1) + values[day]) / span
        out[day] = level
    return out


def rolling_mean(values: FloatArray, span: int) -> FloatArray:
    """Mean of the last `span` rows; NaN where one of them is unknown."""
    out = np.full_like(values, np.nan)
    if len(values) < span:
        return out
    unknown = np.isnan(values)
    some_unknown = bool(unknown.any())
    total = np.where(unknown, 0.0, values)
    for day in range(1, len(total)):  # four times as fast as cumsum, which walks down each column
        total[day] += total[day - 1]
    out[span - 1] = total[span - 1]
    np.subtract(total[span:], total[:-span], out=out[span:])
    out /= span
    if some_unknown:
        missing = np.cumsum(unknown, axis=0, dtype=np.int32)
        missing[span:] -= missing[:-span].copy()
        np.copyto(out, np.nan, where=missing > 0)
    return out


def log_return(market: Aligned, horizon: int) -> FloatArray:
    out = np.full_like(market.close, np.nan)
    out[horizon:] = market.log_close[horizon:] - market.log_close[:-horizon]
    return out


def rsi(market: Aligned) -> FloatArray:
    """Relative strength over 14 days, 0..100; 0 when nothing moved, as TA-Lib has it."""
    change = np.zeros_like(market.close)
    change[1:] = np.diff(market.close, axis=0)
    up = wilder_mean(np.maximum(change, 0.0), RSI_DAYS, start=1)
    down = wilder_mean(np.maximum(-change, 0.0), RSI_DAYS, start=1)
    total = up + down
    return np.divide(100.0 * up, total, out=np.where(np.isnan(total), np.nan, 0.0), where=total > 0)


def macd(market: Aligned) -> FloatArray:
    """MACD(12, 26) relative to the price, so that it does not grow with it."""
    return market.macd / market.close


def macd_signal(market: Aligned) -> FloatArray:
    """EMA(9) of MACD, relative to the price."""
    return ema(market.macd, SIGNAL, start=SLOW - 1) / market.close


def trix(market: Aligned) -> FloatArray:
    """Daily change of a triple EMA(15), in per cent."""
    once = ema(market.close, TRIX_DAYS)
    twice = ema(once, TRIX_DAYS, start=TRIX_DAYS - 1)
    thrice = ema(twice, TRIX_DAYS, start=2 * (TRIX_DAYS - 1))
    out = np.full_like(thrice, np.nan)
    out[1:] = 100.0 * (thrice[1:] / thrice[:-1] - 1.0)
    return out


def mean_distance(market: Aligned) -> FloatArray:
    """Log distance of the close from its 20-day mean."""
    return market.log_close - np.log(rolling_mean(market.close, MEAN_DAYS))


def volatility(market: Aligned) -> FloatArray:
    """Standard deviation of the last 20 daily log returns."""
    out = np.full_like(market.close, np.nan)
    daily = np.diff(market.log_close, axis=0)
    mean = rolling_mean(daily, MEAN_DAYS)
    square = rolling_mean(np.square(daily, out=daily), MEAN_DAYS)
    square -= np.square(mean, out=mean)
    np.sqrt(np.maximum(square, 0.0, out=square), out=out[1:])
    return out


def relative_volume(market: Aligned) -> FloatArray:
    """Log of the day's volume over its 20-day mean (one share added to both: volume may be zero)."""
    assert market.volume is not None
    return np.log1p(market.volume) - np.log1p(np.maximum(rolling_mean(market.volume, MEAN_DAYS), 0.0))


_FUNCTIONS: dict[str, Callable[[Aligned], FloatArray]] = {
    "rsi": rsi,
    "macd": macd,
    "macd_signal": macd_signal,
    "trix": trix,
    "sma20_distance": mean_distance,
    "volatility": volatility,
    "volume": relative_volume,
}


@dataclass(frozen=True)
class RawFeatures:
    """Computes raw features one at a time: [day, symbol] float64, NaN where unknown. Holds no result."""

    aligned: Aligned
    mask: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, prices: Prices) -> "RawFeatures":
        return cls(Aligned(prices), prices.mask)

    def compute(self, name: str) -> FloatArray:
        if name.startswith("return_"):
            aligned = log_return(self.aligned, lookback(name))
        else:
            aligned = _FUNCTIONS[name](self.aligned)
        values = self.aligned.shift_back(aligned)
        np.copyto(values, np.nan, where=~self.mask)
        return values


def require_fields(prices: Prices, names: Sequence[str]) -> None:
    """Raises ConfigError for a feature of something that these prices do not have."""
    if "volume" in names and prices.volume is None:
        raise ConfigError(
            "env.features asks for volume, but these prices have none: remove it from env.features"
        )


def standardised(prices: Prices, names: Sequence[str], train_stop: int) -> npt.NDArray[np.float32]:
    """Features [day, symbol, feature], scaled by mean and deviation over all symbols and days before `train_stop`.

    Zero - the mean - where a feature is unknown. Nothing after training moves the scale.
    """
    require_fields(prices, names)
    raw = RawFeatures.of(prices)
    out = np.empty((prices.days, len(prices.symbols), len(names)), dtype=np.float32)
    for position, name in enumerate(names):
        values = raw.compute(name)
        _, deviation = _centre(values, train_stop)
        values /= deviation
        out[:, :, position] = np.clip(values, -CLIP, CLIP, out=values)
    return out


def feature_scale(prices: Prices, names: Sequence[str], train_stop: int) -> dict[str, tuple[float, float]]:
    """Mean and deviation by which each feature is standardised."""
    raw = RawFeatures.of(prices)
    return {name: _centre(raw.compute(name), train_stop) for name in names}


def _centre(values: FloatArray, train_stop: int) -> tuple[float, float]:
    """Takes the mean of the days before `train_stop` off, in place, with zero where unknown; (mean, deviation)."""
    unknown = ~np.isfinite(values)
    np.copyto(values, 0.0, where=unknown)
    count = int((~unknown[:train_stop]).sum())
    mean = float(values[:train_stop].sum()) / max(count, 1)
    values -= mean
    np.copyto(values, 0.0, where=unknown)
    square = float(np.einsum("ds,ds->", values[:train_stop], values[:train_stop]))
    deviation = (square / max(count, 1)) ** 0.5
    return mean, deviation if deviation > 1e-12 else 1.0
