"""A newer file of the same market: does it continue what is known, and what comes of the two together?

The newer file must hold the known symbols and fields, and on the days that both have the same prices: to rounding, or
by one constant factor per symbol, as when a later dividend or split has adjusted all earlier prices. Known days keep
their known prices, in the newer file's units, and what comes after them is taken from the newer file.
"""

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from eigen2.errors import DataError
from eigen2.market.data import FloatArray, MarketData, Split
from eigen2.market.features import standardised
from eigen2.market.prices import Prices

LEAST_OVERLAP: Final = 5
"""Days that both must have: on fewer, a constant factor could hide other prices."""
EXACT: Final = 1e-5
"""Relative difference that the arithmetic of adjusting prices may leave."""
MOST_ROUNDING: Final = 0.01
"""Relative difference that is never taken for rounding."""
NAMED: Final = 3
"""Differences that a refusal names."""
GONE_DAYS: Final = 5
"""A symbol without a price for so many days at the end need not be in a newer file."""


def continued(known: MarketData, newer: Prices, file: str) -> MarketData:
    """The known market with the later days of `newer`; DataError says by name why it is no continuation.

    Splits and the scale of the features stay; only the holdout reaches to the new last day.
    """
    old = prices_of(known)
    newer = _same_symbols(old, _same_fields(old, newer, file), file)
    # With `env.start` a run knows no earlier days.
    newer = newer.rows(int(np.searchsorted(newer.dates, old.dates[0])), newer.days)
    begin = _overlap(old, newer, file)
    factor = _factors(old.rows(begin, old.days), newer.rows(0, old.days - begin), file)
    later = newer.rows(old.days - begin, newer.days)
    arrays = {}
    for name, array in old.arrays().items():
        scaled = array if name == "volume" else array * factor
        arrays[name] = np.concatenate([scaled, later.arrays()[name]])
    joined = Prices(np.concatenate([old.dates, later.dates]), old.symbols, **arrays)
    return with_prices(known, joined)


def prices_of(market: MarketData) -> Prices:
    return Prices(
        market.dates, market.symbols, market.close, market.open, market.high, market.low, market.volume
    )


def with_prices(market: MarketData, prices: Prices) -> MarketData:
    """The same market with other days after its training days: same scale, same splits up to the last day there is."""
    features = standardised(prices, market.feature_names, market.train.stop)
    return replace(
        market,
        dates=prices.dates,
        close=prices.close,
        open=prices.open,
        high=prices.high,
        low=prices.low,
        volume=prices.volume,
        mask=prices.mask,
        features=features,
        holdout=Split("holdout", market.holdout.start, max(prices.days, market.holdout.start)),
        fingerprint=prices.fingerprint(),
    )


def _same_fields(old: Prices, newer: Prices, file: str) -> Prices:
    missing = [name for name in old.arrays() if name not in newer.arrays()]
    if missing:
        raise DataError(f"{file} has no {' and no '.join(missing)}, which the champion was trained with")
    return Prices(newer.dates, newer.symbols, **{name: newer.arrays()[name] for name in old.arrays()})


def _same_symbols(old: Prices, newer: Prices, file: str) -> Prices:
    """The columns of `newer` in the known order; unknown symbols are left out, one that is gone for good may be missing."""
    column = {symbol: i for i, symbol in enumerate(newer.symbols)}
    listed = np.asarray(old.mask[-GONE_DAYS:].any(axis=0))
    missing = [s for s, there in zip(old.symbols, listed, strict=True) if s not in column and there]
    if missing:
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        raise DataError(
            f"{file} lacks {', '.join(missing[:NAMED])}{more}, which the champion was trained on; add the missing symbols"
        )
    arrays = {}
    for name, array in newer.arrays().items():
        arrays[name] = np.full((newer.days, len(old.symbols)), np.nan)
        for position, symbol in enumerate(old.symbols):
            if symbol in column:
                arrays[name][:, position] = array[:, column[symbol]]
    return Prices(newer.dates, old.symbols, **arrays)


def _overlap(old: Prices, newer: Prices, file: str) -> int:
    """The known day with which `newer` begins. Its days must be the known ones up to the last of them."""
    if not newer.days:
        raise DataError(f"{file} ends before {old.dates[0]}, the first day that the champion knows")
    begin = int(np.searchsorted(old.dates, newer.dates[0]))
    common = old.dates[begin:]
    if len(common) < LEAST_OVERLAP:
        raise DataError(
            f"{file} begins on {newer.dates[0]}, and the last known day is {old.dates[-1]}: at least {LEAST_OVERLAP} days "
            f"must be in both, so that prices can be compared; begin on {old.dates[-min(20, old.days)]} or earlier"
        )
    there = newer.dates[newer.dates <= old.dates[-1]]
    lacking, added = np.setdiff1d(common, there), np.setdiff1d(there, common)
    if lacking.size:
        raise DataError(f"{file} lacks {lacking[0]}, a day on which the market is known; add the day")
    if added.size:
        raise DataError(f"{file} has {added[0]}, a day on which the known market was closed; remove the day")
    return begin


def _factors(old: Prices, newer: Prices, file: str) -> FloatArray:
    """[symbol] by which known prices are multiplied: 1 where they agree to rounding."""
    factor = np.ones(len(old.symbols))
    wrong: list[str] = []
    for column, symbol in enumerate(old.symbols):
        both = old.mask[:, column] & newer.mask[:, column]
        if (old.mask[:, column] != newer.mask[:, column]).any():
            day = int(np.argmax(old.mask[:, column] != newer.mask[:, column]))
            side = "no price" if old.mask[day, column] else "a price"
            wrong.append(f"{symbol} has {side} on {old.dates[day]}, unlike what is known")
            continue
        if not both.any():
            continue
        ratio = float(np.median(newer.close[both, column] / old.close[both, column]))
        if _differing(old, newer, column, 1.0) is None:
            continue
        differing = _differing(old, newer, column, ratio)
        if differing is None:
            factor[column] = ratio
        else:
            day, name = differing
            found, expected = newer.arrays()[name][day, column], old.arrays()[name][day, column]
            wrong.append(f"{symbol} {name} on {old.dates[day]} is {found:g} and was {expected:g}")
    if wrong:
        more = f"; and {len(wrong) - NAMED} more symbols" if len(wrong) > NAMED else ""
        raise DataError(
            f"{file} does not continue the known prices: {'; '.join(wrong[:NAMED])}{more}; prices may differ by rounding, or "
            "by one factor per symbol on all days: adjust both files in the same way"
        )
    return factor


def _differing(old: Prices, newer: Prices, column: int, factor: float) -> tuple[int, str] | None:
    """(day, field) of the first price that differs by more than rounding after `factor` is applied."""
    for name, array in old.arrays().items():
        if name == "volume":
            continue
        known, found = array[:, column], newer.arrays()[name][:, column]
        room = EXACT * np.abs(found) + 0.51 * (_unit(found) + factor * _unit(known))
        room = np.minimum(room, MOST_ROUNDING * np.abs(found))
        bad = np.abs(found - factor * known) > room
        if bad.any():
            return int(np.argmax(bad)), name
    return None


def _unit(values: npt.NDArray[np.float64]) -> float:
    """The last decimal place in which all values are given; zero when they have more than six."""
    finite = values[np.isfinite(values)]
    for places in range(7):
        scaled = finite * 10.0**places
        if np.all(np.abs(scaled - np.round(scaled)) <= 1e-9 * np.maximum(np.abs(scaled), 1.0)):
            return float(10.0**-places)
    return 0.0
