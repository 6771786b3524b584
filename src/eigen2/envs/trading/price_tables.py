"""Price tables of the tradable symbols, prepared once per market so that a step only looks things up.

Every entry of day t depends on prices up to day t alone.
"""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from eigen2.market.data import FloatArray, MarketData

BoolArray = npt.NDArray[np.bool_]

DELISTED_AFTER_DAYS = 5
"""A symbol without a price for this many days in a row counts as delisted from the last of them on.

Looking into the future would tell a pause from the end at once; a trader cannot, so the tables do not either.
"""


@dataclass(frozen=True)
class PriceTables:
    """[day, tradable] unless said otherwise; unknown days carry the last known price, zero before the first."""

    fill: FloatArray
    """Where orders of the day before fill: the open when known, else the close."""
    high: FloatArray
    """Highest price after the fill; zero where unknown or where the fill is the close, so that it reaches no target."""
    mark: FloatArray
    """Where holdings are valued at the end of the day: the close."""
    known: BoolArray
    """Tradable on that day."""
    complete: BoolArray
    """[day] every symbol is known."""
    delisted: BoolArray
    """Listed once, and unknown for `DELISTED_AFTER_DAYS` days."""
    overnight: FloatArray
    """[day] mean return over known symbols from the last mark to the fill."""
    intraday: FloatArray
    """[day] mean return over known symbols from the fill to the mark."""

    @property
    def days(self) -> int:
        return int(self.mark.shape[0])

    @property
    def symbols(self) -> int:
        return int(self.mark.shape[1])

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, field.name).nbytes for field in fields(self))


def price_tables(market: MarketData) -> PriceTables:
    close = market.close[:, market.tradable]
    known = market.mask[:, market.tradable] & _is_price(close)
    day = np.arange(close.shape[0])[:, None]
    last_known = np.maximum.accumulate(np.where(known, day, -1), axis=0)
    seen = last_known >= 0
    mark = np.where(seen, np.take_along_axis(close, np.maximum(last_known, 0), axis=0), 0.0)

    fill, high = mark.copy(), np.zeros_like(mark)
    if market.open is not None:
        open_ = market.open[:, market.tradable]
        at_open = known & _is_price(open_)
        fill[at_open] = open_[at_open]
        np.maximum(fill, mark, out=high, where=at_open)
        if market.high is not None:
            # Without an open it is unknown whether the high came before or after the fill: then it does not count.
            day_high = market.high[:, market.tradable]
            np.maximum(high, day_high, out=high, where=at_open & _is_price(day_high))

    overnight, intraday = _equal_weight_returns(fill, mark, known)
    # Picking columns leaves arrays column by column in memory; a step reads rows.
    return PriceTables(
        fill=np.ascontiguousarray(fill),
        high=np.ascontiguousarray(high),
        mark=np.ascontiguousarray(mark),
        known=np.ascontiguousarray(known),
        complete=np.asarray(known.all(axis=1)),
        delisted=np.ascontiguousarray(seen & (day - last_known >= DELISTED_AFTER_DAYS)),
        overnight=overnight,
        intraday=intraday,
    )


def _is_price(values: FloatArray) -> BoolArray:
    positive: BoolArray = np.isfinite(values) & (np.nan_to_num(values) > 0.0)
    return positive


def _equal_weight_returns(
    fill: FloatArray, mark: FloatArray, known: BoolArray
) -> tuple[FloatArray, FloatArray]:
    before = np.vstack([np.zeros_like(mark[:1]), mark[:-1]])
    comparable = known & (before > 0.0)
    overnight = np.divide(fill, before, out=np.ones_like(fill), where=comparable) - 1.0
    intraday = np.divide(mark, fill, out=np.ones_like(fill), where=known) - 1.0
    return (
        overnight.sum(axis=1) / np.maximum(comparable.sum(axis=1), 1),
        intraday.sum(axis=1) / np.maximum(known.sum(axis=1), 1),
    )
