"""Splits that were not taken out of the prices, told from crashes.

A split of n for m multiplies the price by m/n and leaves everything else as it was. A usual move is 1.48 times the median
absolute log change of the 60 days before. A day is suspected when all of these hold:

1. its change is near a common ratio: within 2.5 usual moves and 6 % of 2:1 and more, within 2 and 5 % of 3:2; 4:3 and 5:4
   are ordinary bad days for a close alone, and are judged only where there is an open, within 1.5 and 4 %;
2. it is 6 usual moves or more from no change;
3. the days after it are as calm as ever: none of five moves by more than 4 usual moves, and the median move of the 20 is
   at most twice the usual. After a crash it is not so;
4. other symbols do not move: the median of their moves that day is at most 3 usual ones;
5. where there is an open, the jump stands between close and open;
6. where there is volume, at most four times the usual money changes hands. A crash trades more.

**Measured.** The three embedded samples, which are adjusted, hold 14 falls of 20 % or more; none is suspected. Of splits put
into them on 150 random days each, 3:2 to 10:1 and 1:2 to 1:10, 79 to 94 % are found; of 4:3 and 5:4 71 % with an open, none
without. Simulated crashes of 25 to 75 % on closes alone are suspected in 8 % (days three times as wild after them) to 29 %
(as calm as before); with volume in at most 5 %. On closes alone Apple's fall by 52 % on 2000-09-29 is suspected, with its
opens and volumes it is not.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from eigen2.market.data import FloatArray
from eigen2.market.prices import Prices

RATIOS: Final = (
    (5, 4), (4, 3), (3, 2), (2, 1), (5, 2), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (8, 1), (10, 1), (12, 1), (15, 1),
    (20, 1), (25, 1), (30, 1), (40, 1), (50, 1), (100, 1),
)  # fmt: skip
"""New shares for old ones; the other way round for reverse splits (from 1:2 on)."""

BEFORE: Final = 60
AFTER: Final = 20
SHOCK_DAYS: Final = 5
EXTREME, SHOCK, CALM, OTHERS, OPEN, MONEY = 6.0, 4.0, 2.0, 3.0, 2.0, 4.0
SMALLEST_MOVE: Final = 0.004
"""A calmer symbol is judged as if it moved this much a day."""


@dataclass(frozen=True)
class SuspectedSplit:
    day: int
    symbol: int
    new: int
    old: int
    """`new` shares for `old`."""
    factor: float
    """close / the close before."""


def suspected_splits(prices: Prices) -> list[SuspectedSplit]:
    """By day."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.where(prices.close > 0, prices.close, np.nan))
    change = np.diff(logs, axis=0)
    found = []
    for day, symbol in zip(*np.nonzero(_near_a_ratio(change, prices.open is not None)), strict=True):
        suspect = _judge(prices, change, int(day), int(symbol))
        if suspect is not None:
            found.append(suspect)
    return found


def _near_a_ratio(change: FloatArray, opened: bool) -> npt.NDArray[np.bool_]:
    """[day, symbol] changes that some ratio may explain; few of many, so that the rest costs nothing."""
    near = np.zeros(change.shape, np.bool_)
    for new, old in RATIOS:
        ratio = float(np.log(new / old))
        _, most = _closeness(new / old, opened)
        if not most:
            continue
        near |= np.abs(change + ratio) <= most
        if new / old >= 2:
            near |= np.abs(change - ratio) <= most
    return near


def _judge(prices: Prices, change: FloatArray, day: int, symbol: int) -> SuspectedSplit | None:
    """`change[day]` leads to the close of `day + 1`."""
    usual = _usual_move(change[:day, symbol])
    if usual is None:
        return None
    move = float(change[day, symbol])
    new, old = min(_signed_ratios(move), key=lambda ratio: abs(move - np.log(ratio[1] / ratio[0])))
    ratio = float(np.log(old / new))
    opened = prices.open is not None and prices.open[day + 1, symbol] > 0
    moves, most = _closeness(max(new / old, old / new), bool(opened))
    if abs(move - ratio) > min(moves * usual, most) or abs(move) < EXTREME * usual:
        return None
    if _shaken(change[day + 1 :, symbol], usual) or _others_move(change, day, symbol):
        return None
    if not _gap_fits(prices, day + 1, symbol, ratio, usual) or _much_money(prices, day + 1, symbol):
        return None
    return SuspectedSplit(day + 1, symbol, new, old, float(np.exp(move)))


def _closeness(ratio: float, opened: bool) -> tuple[float, float]:
    """Usual moves, and an absolute log change, that a day may be away from a ratio."""
    if ratio >= 2:
        return 2.5, 0.06
    if ratio >= 1.5:
        return 2.0, 0.05
    return (1.5, 0.04) if opened else (0.0, 0.0)


def _shaken(after: FloatArray, usual: float) -> bool:
    """Whether the days after are wilder than usual; a jump on the last day cannot be told from a crash."""
    moves = np.abs(after[:AFTER][np.isfinite(after[:AFTER])])
    if len(moves) == 0:
        return True
    return bool(moves[:SHOCK_DAYS].max() > SHOCK * usual or 1.48 * np.median(moves) > CALM * usual)


def _signed_ratios(move: float) -> list[tuple[int, int]]:
    return list(RATIOS) if move < 0 else [(old, new) for new, old in RATIOS if new / old >= 2]


def _usual_move(before: FloatArray) -> float | None:
    known = before[-BEFORE:]
    known = known[np.isfinite(known)]
    if len(known) < 10:
        return None
    return max(SMALLEST_MOVE, 1.48 * float(np.median(np.abs(known))))


def _others_move(change: FloatArray, day: int, symbol: int) -> bool:
    others: npt.NDArray[np.int64] = np.delete(np.arange(change.shape[1]), symbol)
    moves = change[day, others]
    around = change[max(0, day - BEFORE) : day + 1, others]
    listed = np.isfinite(moves)
    if not listed.any():
        return False
    usual = np.maximum(1.48 * np.nanmedian(np.abs(around[:, listed]), axis=0), SMALLEST_MOVE)
    return float(np.median(np.abs(moves[listed]) / usual)) > OTHERS


def _gap_fits(prices: Prices, day: int, symbol: int, ratio: float, usual: float) -> bool:
    """Without an open there is nothing to see."""
    if prices.open is None or not prices.open[day, symbol] > 0:
        return True
    gap = float(np.log(prices.open[day, symbol] / prices.close[day - 1, symbol]))
    return abs(gap - ratio) <= OPEN * usual


def _much_money(prices: Prices, day: int, symbol: int) -> bool:
    """Volume times close, against the 20 days before."""
    if prices.volume is None:
        return False
    money = prices.volume[:, symbol] * prices.close[:, symbol]
    before = money[max(0, day - 20) : day]
    before = before[np.isfinite(before) & (before > 0)]
    return len(before) > 0 and bool(money[day] > MONEY * np.median(before))
