"""Markets without anything to know, of the kinds that fool people; prices `[day, symbol]`.

iid          independent normal steps, no drift
garch        fat tails, storms that last for weeks, and a rising market
bootstrap    blocks of 10 days of the real sp20 prices, drawn anew: real steps, in an order that says nothing
survivors    the two thirds of many walks that never fell low
drift        a market that rises or falls all the time, by -20 to +40 % a year
"""

from pathlib import Path

import numpy as np
import pandas as pd

from eigen2 import seeds
from eigen2.market.data import FloatArray
from eigen2.market.embedded import read_sample

KINDS = ("iid", "garch", "bootstrap", "survivors", "drift")
DAYS, SYMBOLS = 1400, 8
BLOCK = 10


def null_prices(kind: str, number: int) -> FloatArray:
    rng = seeds.generator(number, f"null market {kind}")
    common, own = 0.008 * rng.normal(size=(DAYS, 1)), 0.014 * rng.normal(size=(DAYS, 3 * SYMBOLS // 2))
    steps = (common + own)[:, :SYMBOLS]
    if kind == "garch":
        steps = 0.0005 + storms(rng)
    elif kind == "bootstrap":
        steps = _shuffled_blocks(rng)
    elif kind == "survivors":
        walks = np.cumsum(common + own, axis=0)
        steps = (common + own)[:, np.sort(np.argsort(walks.min(axis=0))[-SYMBOLS:])]
    elif kind == "drift":
        steps = steps + rng.uniform(-0.2, 0.4) / 252
    return 100.0 * np.exp(np.cumsum(steps, axis=0))


def storms(rng: np.random.Generator) -> FloatArray:
    """GARCH(1, 1) with t innovations of five degrees of freedom, a market factor and one for each symbol."""
    shocks = rng.standard_t(5, size=(DAYS + 200, SYMBOLS + 1)) * np.sqrt(0.6)
    variance, steps = np.ones(SYMBOLS + 1), np.empty_like(shocks)
    for day, shock in enumerate(shocks):
        steps[day] = np.sqrt(variance) * shock
        variance = 0.02 + 0.08 * steps[day] ** 2 + 0.90 * variance
    kept = steps[200:]
    return np.asarray(0.008 * kept[:, :1] + 0.014 * kept[:, 1:])


def _shuffled_blocks(rng: np.random.Generator) -> FloatArray:
    close = read_sample("sp20").close
    moves = np.diff(np.log(close), axis=0)
    starts = rng.integers(len(moves) - BLOCK, size=DAYS // BLOCK)
    days = (starts[:, None] + np.arange(BLOCK)).ravel()
    columns = np.sort(rng.permutation(close.shape[1])[:SYMBOLS])
    drawn = moves[days][:, columns]
    # Some names of a sample of survivors rose more than others, all of the time: knowing which would be knowledge.
    return np.asarray(drawn - drawn.mean(axis=0) + drawn.mean())


def write_null_prices(kind: str, number: int, path: Path) -> None:
    table = pd.DataFrame(null_prices(kind, number), columns=[f"S{i}" for i in range(SYMBOLS)])
    table.insert(0, "date", pd.bdate_range("2015-01-01", periods=DAYS))
    table.to_csv(path, index=False)
