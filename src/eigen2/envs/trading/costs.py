"""What trading costs: the one place that knows.

Fee and slippage are both proportional to the quoted value traded, per side: cost(v) = rate * v. Another cost model (a
minimum fee, a fee per share) changes this file alone, as long as its methods keep to what the rules ask of them:

* `orders` buys with a fixed amount of money, costs included: `affordable` and `paid` undo each other, and `affordable`
  grows with the money.
* `weights` solves x + total(|w x - v|) = wealth by Newton's method. The left side must be continuous, increasing and
  nearly linear in x: `total` never falls when a trade grows, grows by less than 1 per unit traded, and `slope` is its
  derivative, exact up to a small multiple of the rate. A minimum fee has a kink and is fine; a fixed fee for any
  trade, however small, is a jump with no root beside it and must be rounded off first.
* The direct gradient differentiates `total`: it accepts tensors as well as arrays.

A fee per share also needs the price at which is traded; it becomes an argument of these methods.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np

from eigen2.envs.config import TradingConfig
from eigen2.market.data import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

Array = TypeVar("Array", FloatArray, "Tensor")


@dataclass(frozen=True)
class CostModel:
    rate: float
    """Cost per unit of quoted value traded."""

    @classmethod
    def of(cls, config: TradingConfig) -> Self:
        return cls((config.fee_bp + config.slippage_bp) * 1e-4)

    def each(self, traded: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Cost of every trade by itself; `traded` values are not negative. Written into `out` if given."""
        return np.multiply(traded, self.rate, out=out)

    def total(self, traded: Array) -> Array:
        """Cost of all trades of a portfolio together, [..., N] -> [...]."""
        cost: Array = self.rate * traded.sum(-1)
        return cost

    def slope(self, direction: FloatArray) -> FloatArray:
        """Derivative of `total` [...] as the traded values [..., N] move in `direction` [..., N]."""
        slope: FloatArray = self.rate * direction.sum(-1)
        return slope

    def paid(self, value: FloatArray) -> FloatArray:
        """Money that leaves the account when `value` is bought."""
        return value * (1.0 + self.rate)

    def affordable(self, money: FloatArray) -> FloatArray:
        """Value that `money` buys, costs included."""
        return money / (1.0 + self.rate)
