"""What the same trades would have earned at other costs.

Costs are proportional to the value traded (`envs.trading.costs`), so a day with return R and turnover T at a cost of c
per unit traded returns R + (c - c') T at c'. The trades stay as they are; an agent trained at c' might trade otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eigen2.evaluation.backtest import Backtest
from eigen2.market.data import FloatArray

LEVELS_BP = np.arange(0.0, 51.0, 2.5)
"""Basis points per side at which is looked."""
HIGHEST_BP = 1_000.0
"""A break-even beyond that is not looked for."""


@dataclass(frozen=True)
class CostCurve:
    charged_bp: float
    """Fee and slippage per side that the evaluation was made with."""
    growth: dict[str, FloatArray]
    """[level] log return over all days, by strategy."""
    break_even_bp: float | None
    """Cost at which the champion earns nothing: 0 when it does even without costs, None when not at any that was tried."""
    break_even_equal_weight_bp: float | None
    """Cost at which it earns as much as equal weight."""

    def to_json(self) -> dict[str, Any]:
        return {
            "charged_bp": self.charged_bp,
            "break_even_bp": self.break_even_bp,
            "break_even_equal_weight_bp": self.break_even_equal_weight_bp,
        }

    def series(self) -> dict[str, FloatArray]:
        """Returns in per cent."""
        return {
            "bp_per_side": LEVELS_BP,
            **{name: 100.0 * np.expm1(path) for name, path in self.growth.items()},
        }

    @property
    def sentence(self) -> str:
        return (
            f"The same trades at other costs; {self.charged_bp:g} bp per side were charged. "
            f"The champion {_earns(self.break_even_bp)}; it earns {_beats(self.break_even_equal_weight_bp)}."
        )


def cost_curve(champion: Backtest, equal_weight: Backtest, charged_bp: float) -> CostCurve:
    played = {"champion": champion, "equal_weight": equal_weight}

    def growth(name: str, bp: float) -> float:
        return _growth(played[name], charged_bp, bp)

    return CostCurve(
        charged_bp,
        {name: np.array([growth(name, bp) for bp in LEVELS_BP]) for name in played},
        _break_even(lambda bp: growth("champion", bp)),
        _break_even(lambda bp: growth("champion", bp) - growth("equal_weight", bp)),
    )


def joined_curve(tables: Sequence[Mapping[str, Any] | None], charged_bp: float) -> CostCurve | None:
    """Of stretches that follow each other, from their series; None if one has none."""
    known = [
        table for table in tables if table is not None and len(table.get("bp_per_side", ())) == len(LEVELS_BP)
    ]
    if len(known) < len(tables) or not known:
        return None
    growth = {
        name: np.sum([np.log1p(np.asarray(table[name], float) / 100.0) for table in known], axis=0)
        for name in ("champion", "equal_weight")
    }
    return CostCurve(
        charged_bp,
        growth,
        _crossing(growth["champion"]),
        _crossing(growth["champion"] - growth["equal_weight"]),
    )


def _growth(backtest: Backtest, charged_bp: float, bp: float) -> float:
    days = np.exp(backtest.log_returns[0]) + 1e-4 * (charged_bp - bp) * backtest.turnover[0]
    return float(np.log(np.maximum(days, 1e-12)).sum())


def _break_even(difference: Callable[[float], float]) -> float | None:
    """Where a difference that falls with the costs is zero, by bisection."""
    low, high = 0.0, HIGHEST_BP
    if difference(low) <= 0.0:
        return 0.0
    if difference(high) > 0.0:
        return None
    while high - low > 0.01:
        middle = (low + high) / 2.0
        low, high = (middle, high) if difference(middle) > 0.0 else (low, middle)
    return round((low + high) / 2.0, 2)


def _crossing(difference: FloatArray) -> float | None:
    """The same between the levels that are known."""
    below = np.nonzero(difference <= 0.0)[0]
    if not len(below):
        return None
    after = int(below[0])
    if after == 0:
        return 0.0
    share = difference[after - 1] / (difference[after - 1] - difference[after])
    return round(float(LEVELS_BP[after - 1] + share * (LEVELS_BP[after] - LEVELS_BP[after - 1])), 2)


def _earns(bp: float | None) -> str:
    if bp is None:
        return "earns at every cost that was tried"
    return f"earns nothing from {bp:.1f} bp on" if bp else "loses even without costs"


def _beats(bp: float | None) -> str:
    if bp is None:
        return "more than equal weight at every one"
    return (
        f"less than equal weight from {bp:.1f} bp on" if bp else "less than equal weight even without costs"
    )
