"""What an agent sees of its own portfolio; the market window is a pure function of `day` and is not copied."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eigen2.envs.trading.portfolios import SMALLEST_EQUITY, START_EQUITY, Portfolios

POSITION_FEATURES = ("weight", "log_gain", "age", "log_to_target")
ACCOUNT_FEATURES = ("cash", "exposure", "log_equity", "time_left", "settlement")

_SMALLEST_NORMAL = float(np.finfo(np.float16).smallest_normal)


@dataclass(frozen=True)
class Observation:
    """Compact on purpose: it is stored once per transition. Accounting stays in float64 inside the core."""

    day: npt.NDArray[np.int32]
    """[B] the last day whose close is known."""
    positions: npt.NDArray[np.float16]
    """[B, N, 4] weight of equity, unrealised log gain, days held / max_holding_days, log distance to the target;
    zero where nothing is held. Under `weights` every day rebalances everything, so a position has neither entry, age
    nor target: only the weight is filled in."""
    account: npt.NDArray[np.float32]
    """[B, 5] cash fraction, exposure, log equity since the start, share of the episode left, 1 in settlement."""


def observe(books: Portfolios, max_holding_days: int, weights_only: bool) -> Observation:
    """The observation after the close of `books.day`."""
    equity = np.maximum(books.equity, SMALLEST_EQUITY)
    positions = (
        _weights_only(books, equity) if weights_only else _open_positions(books, equity, max_holding_days)
    )
    account = np.empty((len(equity), len(ACCOUNT_FEATURES)), np.float32)
    account[:, 0] = books.cash / equity
    account[:, 1] = 1.0 - account[:, 0]
    account[:, 2] = np.log(equity / START_EQUITY)
    account[:, 3] = (books.end - books.day) / np.maximum(books.end - books.start, 1)
    account[:, 4] = books.day >= books.last_decision
    return Observation(books.day.astype(np.int32), positions, account)


def _open_positions(
    books: Portfolios, equity: npt.NDArray[np.float64], max_holding_days: int
) -> npt.NDArray[np.float16]:
    batch, symbols = books.shares.shape
    positions = np.zeros((batch * symbols, len(POSITION_FEATURES)), np.float16)
    cell = np.flatnonzero(books.shares > 0.0)
    row = cell // symbols
    value = books.value.reshape(-1)[cell]
    price = value / books.shares.reshape(-1)[cell]
    seen = np.empty((len(cell), len(POSITION_FEATURES)), np.float32)
    seen[:, 0] = value / equity[row]
    seen[:, 1] = np.log(price / books.entry.reshape(-1)[cell])
    seen[:, 2] = (books.day[row] - books.entry_day.reshape(-1)[cell]) / max_holding_days
    seen[:, 3] = np.log(books.target.reshape(-1)[cell] / price)
    positions[cell] = _without_subnormals(seen)
    return positions.reshape(batch, symbols, len(POSITION_FEATURES))


def _weights_only(books: Portfolios, equity: npt.NDArray[np.float64]) -> npt.NDArray[np.float16]:
    positions = np.zeros((*books.shares.shape, len(POSITION_FEATURES)), np.float16)
    weight = np.empty(books.shares.shape, np.float32)
    np.divide(books.value, equity[:, None], out=weight, casting="same_kind")
    positions[:, :, 0] = _without_subnormals(weight)
    return positions


def _without_subnormals(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Zero instead of values too small for a normal float16: they mean nothing, and converting them takes ages."""
    values *= np.abs(values) >= _SMALLEST_NORMAL
    return values
