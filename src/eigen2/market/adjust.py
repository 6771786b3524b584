"""Adjusted beside quoted prices: which are used.

A vendor's adjusted close takes splits and dividends out of the price, so that changes of it are what a holder earned. It
is used as the close, and the day's open, high and low are scaled by the same factor, adjusted / quoted. Vendors that
give the other fields adjusted too have theirs used.
"""

import numpy as np

from eigen2.market.data import FloatArray
from eigen2.market.findings import Finding

_OTHERS = ("open", "high", "low")


def adjusted(arrays: dict[str, FloatArray], file: str) -> tuple[dict[str, FloatArray], list[Finding]]:
    """close, open, high, low and volume as they are used, and a note where that is not how they were quoted."""
    plain = {name: array for name, array in arrays.items() if not name.startswith("adj ")}
    adj_close = arrays.get("adj close")
    if adj_close is None or np.isnan(adj_close).all():
        return plain, []
    quoted = plain.get("close")
    given = {name for name in _OTHERS if f"adj {name}" in arrays}
    if quoted is None:
        wanting = [name for name in _OTHERS if name in plain and name not in given]
        plain = {name: array for name, array in plain.items() if name not in wanting}
        left = (
            f"; {', '.join(wanting)} are left out: without quoted closes they cannot be adjusted"
            if wanting
            else ""
        )
        return {**plain, "close": adj_close, **_given(arrays, given)}, _note(
            file, f"the closes are adjusted ones{left}"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = adj_close / quoted
    scaled = {name: plain[name] * factor for name in _OTHERS if name in plain and name not in given}
    used = {**plain, "close": adj_close, **scaled, **_given(arrays, given)}
    if np.array_equal(adj_close, quoted, equal_nan=True):
        return used, []
    how = f"; {', '.join(scaled)} are scaled by the same factor" if scaled else ""
    how += f"; {', '.join(sorted(given))} are the adjusted ones too" if given else ""
    return used, _note(file, f"the adjusted close is used, not the quoted one{how}")


def _given(arrays: dict[str, FloatArray], names: set[str]) -> dict[str, FloatArray]:
    found = {name: arrays[f"adj {name}"] for name in sorted(names)}
    return found | ({"volume": arrays["adj volume"]} if "adj volume" in arrays else {})


def _note(file: str, said: str) -> list[Finding]:
    return [Finding(file, None, None, said, "returns then hold dividends and splits", "note")]
