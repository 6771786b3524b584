"""How often held-out days have been used, by whichever run: a holdout is fresh once.

Uses are counted in a ledger outside the runs (`HoldoutLedger`). The present holdout and one on record are the *same
data* when a traded symbol of both has the same returns on the dates that both have. So they are found again in another
file or layout, after re-adjustment for a dividend, with days added, with fewer symbols or other names for them. Not
found are prices resampled to another frequency, dates that moved by a day, and holdouts that share less than 5 days (20
where the names differ); of more than 512 symbols 512 are written down, the same ones whichever file they are in.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.evaluation.result import HoldoutLedger
from eigen2.market.data import MarketData

MOST_SYMBOLS = 512
FEWEST_DAYS = 5
FEWEST_DAYS_UNNAMED = 20
"""Common days from which two series of different names can be told to be one: among many pairs some agree by chance."""
TOLERANCE = 0.1
"""Returns are the same when they differ by less than this share of their deviation: files are rounded."""
AGREEING = 0.8
"""Share of common days that must be the same: one file knows a dividend or a split that the other does not."""
UNNAMED = 32
"""Symbols of the present holdout that are looked for under other names."""


@dataclass(frozen=True)
class HoldoutUses:
    """Uses of a holdout and of those that overlap with it, the present one included."""

    total: int
    champions: int
    """Different champions and policies: each was one more chance of a lucky hit, the same one again is not."""
    trials: int = 0
    """Candidates among which these were chosen, on other days."""
    use: str | None = None
    """The present use in the ledger."""
    ledger: str | None = None
    """Where the ledger is."""
    damaged: int = 0
    """Lines of the ledger that could not be read."""

    def to_json(self) -> dict[str, Any]:
        counted = {
            "uses": self.total,
            "champions": self.champions,
            "trials": self.trials,
            "ledger": self.ledger,
            "damaged_lines": self.damaged,
        }
        return {"holdout": counted, "holdout_use": self.use}

    def notes(self) -> tuple[str, ...]:
        """What to know about a result on this holdout."""
        notes = []
        if self.total == 1:
            notes.append(
                "this was the first use of this holdout; every other champion or policy shown to it from now on, "
                "by whichever run, must clear a higher bar"
            )
        elif self.champions > 1:
            notes.append(
                f"{self.champions} different champions were shown to this holdout: it is no longer fresh, and the "
                "bar is higher"
            )
        if self.damaged:
            notes.append(f"{self.damaged} lines of {self.ledger} cannot be read and are not counted")
        return tuple(notes)


@dataclass(frozen=True)
class Sketch:
    """What identifies held-out data."""

    dates: npt.NDArray[np.int32]
    """[day] days since 1970."""
    symbols: tuple[str, ...]
    returns: npt.NDArray[np.float32]
    """[symbol, day], NaN where unknown."""


def open_holdout(
    ledger: HoldoutLedger,
    market: MarketData,
    *,
    champion: str,
    name: str,
    trials: int = 0,
    records: Iterable[Mapping[str, object]] = (),
) -> HoldoutUses:
    """Write down that `champion` (called `name`, the best of `trials`) is about to be shown this holdout, and count.

    `records` are the facts of the run's own earlier evaluations: uses that the ledger does not know, because they are
    older than it or were made elsewhere, count too.
    """
    sketch = sketch_of(market)
    use = {"champion": champion, "by": name, "trials": trials}
    lines, damaged = ledger.record(use, description(sketch, market))
    known = {str(line["use"]) for line in lines if line["kind"] == "use"}
    uses = [*_of_the_same_data(lines, sketch), *_elsewhere(records, known)]
    chosen = {str(line["champion"]): int(line["trials"]) for line in uses}
    return HoldoutUses(
        total=len(uses),
        champions=len(chosen),
        trials=sum(chosen.values()),
        use=str(lines[-1]["use"]),
        ledger=ledger.place,
        damaged=damaged,
    )


def candidate(champion: str, circumstances: Mapping[str, Any]) -> str:
    """What a champion counts as under changed circumstances: other settings or other days are one more choice, and the
    best of several is lucky; newer prices and a benchmark beside it are not."""
    chosen = {key: circumstances[key] for key in ("settings", "days") if key in circumstances}
    return f"{champion} {json.dumps(chosen, sort_keys=True, default=str)}" if chosen else champion


def sketch_of(market: MarketData) -> Sketch:
    """The daily returns of the tradable symbols inside the holdout."""
    days = market.holdout
    names = np.array([market.symbols[position] for position in market.tradable])
    order = np.argsort(names)
    if len(names) > MOST_SYMBOLS:
        # By a hash of the name, so that other files with some of these symbols choose the same ones.
        drawn = sorted(order, key=lambda i: hashlib.sha256(str(names[i]).encode()).digest())
        order = np.array(sorted(drawn[:MOST_SYMBOLS], key=lambda i: str(names[i])))
    columns = market.tradable[order]
    known = market.mask[days.start : days.stop, columns]
    close = np.where(known, market.close[days.start : days.stop, columns], np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        returns = (close[1:] / close[:-1] - 1.0).T
    # What is stored is what is compared.
    stored = np.clip(np.where(np.isfinite(returns), returns, np.nan), -6e4, 6e4).astype("<f2")
    dates = market.dates[days.start + 1 : days.stop].astype("datetime64[D]").astype(np.int32)
    return Sketch(dates, tuple(str(name) for name in names[order]), stored.astype(np.float32))


def description(sketch: Sketch, market: MarketData) -> dict[str, Any]:
    """A sketch as the ledger keeps it."""
    dates, returns = sketch.dates.astype("<i4").tobytes(), sketch.returns.astype("<f2")
    content = hashlib.sha256(dates + "\n".join(sketch.symbols).encode() + returns.tobytes())
    first, last = (str(np.datetime64(int(day), "D")) for day in sketch.dates[[0, -1]])
    return {
        "id": content.hexdigest()[:32],
        "market": market.name,
        "fingerprint": market.fingerprint,
        "first": first,
        "last": last,
        "dates": _encoded(dates),
        "returns": {
            symbol: _encoded(row.tobytes()) for symbol, row in zip(sketch.symbols, returns, strict=True)
        },
    }


def sketch_from(line: Mapping[str, Any]) -> Sketch:
    dates = np.frombuffer(base64.b64decode(line["dates"]), "<i4").astype(np.int32)
    symbols = tuple(line["returns"])
    rows = [np.frombuffer(base64.b64decode(row), "<f2") for row in line["returns"].values()]
    return Sketch(dates, symbols, np.array(rows, np.float32).reshape(len(symbols), len(dates)))


def same_data(one: Sketch, other: Sketch) -> bool:
    """Whether some symbol of both has the same returns on common dates."""
    common, mine, theirs = np.intersect1d(one.dates, other.dates, assume_unique=True, return_indices=True)
    if len(common) < FEWEST_DAYS:
        return False
    left, right = one.returns[:, mine], other.returns[:, theirs]
    position = {symbol: row for row, symbol in enumerate(other.symbols)}
    named = [(row, position[symbol]) for row, symbol in enumerate(one.symbols) if symbol in position]
    if named:
        rows, others = np.array(named).T
        if _agree(left[rows], right[others], FEWEST_DAYS).any():
            return True
    step = max(1, len(left) // UNNAMED)
    return any(bool(_agree(row[None], right, FEWEST_DAYS_UNNAMED).any()) for row in left[::step])


def _agree(
    left: npt.NDArray[np.float32], right: npt.NDArray[np.float32], fewest: int
) -> npt.NDArray[np.bool_]:
    """[row] whether series `[row, day]` are the same; days that one of them does not know say nothing."""
    known = np.isfinite(left) & np.isfinite(right)
    count = known.sum(axis=1)
    x, y = np.where(known, left, 0.0).astype(np.float64), np.where(known, right, 0.0).astype(np.float64)
    mean = x.sum(axis=1) / np.maximum(count, 1)
    square = np.where(known, x - mean[:, None], 0.0) ** 2
    deviation = np.sqrt(square.sum(axis=1) / np.maximum(count, 1))
    same = known & (np.abs(x - y) <= TOLERANCE * deviation[:, None])
    return np.asarray((count >= fewest) & (deviation > 1e-9) & (same.sum(axis=1) >= AGREEING * count))


def _of_the_same_data(lines: Iterable[Mapping[str, Any]], sketch: Sketch) -> list[dict[str, Any]]:
    """Uses whose holdout overlaps with the present one, which is the last line's."""
    lines = list(lines)
    present = lines[-1]["holdout"]
    overlapping = {present}
    for line in lines:
        if line["kind"] == "holdout" and line["id"] != present and same_data(sketch, sketch_from(line)):
            overlapping.add(line["id"])
    return [dict(line) for line in lines if line["kind"] == "use" and line["holdout"] in overlapping]


def _elsewhere(records: Iterable[Mapping[str, object]], known: set[str]) -> list[dict[str, Any]]:
    """Uses in the run's own evaluations that are not in the ledger.

    The first runs wrote the champion's fingerprint under `champion`, where its figures stand now.
    """
    return [
        {
            "champion": record.get("champion_fingerprint", record.get("champion")),
            "trials": record.get("trials", 0),
        }
        for record in records
        if record.get("split") == "holdout" and str(record.get("holdout_use")) not in known
    ]


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
