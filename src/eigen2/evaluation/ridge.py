"""The quant's own baseline: ridge regression of later returns on today's features, and a portfolio of the k best.

A learner that does not beat this has found nothing that a straight line through the same features does not show. It
plays through the same core, with the same fills and costs, under rules of its own: k equal stakes; a holding is sold
when it is no longer among the k + band best, and the best symbol that is not held takes its place.

Everything is learned on training days. The coefficients come from their first two thirds, horizon, k and band from
playing all combinations on the rest, at most 504 days, for the highest log return; then the coefficients are fitted
again on all training days. A row is one symbol on one day: its features, and its return from the fill after that day to
the fill `horizon` days later, both less their mean over the symbols of the day.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import Observation, TradingCore
from eigen2.envs.trading.price_tables import price_tables
from eigen2.evaluation.backtest import Policy, Strategy
from eigen2.evaluation.policies import NEVER
from eigen2.market.data import FloatArray, MarketData, Split

VERSION = 1
"""Of the rule below: a fit of another version is not used again."""
HORIZONS = (1, 2, 5, 10, 20)
SIZES = (1, 2, 3, 5, 10, 20, 50)
"""Symbols held; of those up to half of the market the five largest are tried."""
BANDS = (0.0, 1.0, 3.0)
"""Ranks below the k best at which a holding is still kept, in units of k."""
PENALTY = 0.01
"""Ridge penalty per row; features have unit variance."""
FITTED = 2.0 / 3.0
MOST_DAYS = 504
CHUNK_ROWS = 1 << 14
"""Rows held in memory at a time."""


@dataclass(frozen=True)
class Ridge:
    """A fitted baseline; plain numbers, as they are stored with an evaluation."""

    key: str
    """The prices, features, days and costs it was fitted on."""
    horizon: int
    size: int
    band: int
    coefficients: tuple[float, ...]
    """One per feature."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "coefficients": list(self.coefficients)}


def ridge_benchmark(market: MarketData, config: TradingConfig, ridge: Ridge) -> Strategy:
    settings = np.array([ridge.coefficients]), np.array([ridge.band])
    return Strategy("ridge", _rules(market, config, ridge.size), _policy(ridge.size, *settings))


def known_ridge(
    market: MarketData, config: TradingConfig, records: Iterable[Mapping[str, Any]] = ()
) -> Ridge:
    """The baseline of a market: as an earlier evaluation of the run has it in `records`, else fitted now."""
    key = ridge_key(market, config)
    for record in records:
        found = record.get("ridge")
        if isinstance(found, Mapping) and found.get("key") == key:
            fields = {name: found[name] for name in ("horizon", "size", "band")}
            return Ridge(key, **fields, coefficients=tuple(found["coefficients"]))
    return fit_ridge(market, config)


def ridge_key(market: MarketData, config: TradingConfig) -> str:
    words = (
        VERSION, market.fingerprint, market.feature_names, market.tradable.tolist(), market.train.start,
        market.train.stop, config.fee_bp, config.slippage_bp, config.delisting_penalty,
    )  # fmt: skip
    return hashlib.sha256(repr(words).encode()).hexdigest()[:16]


def fit_ridge(market: MarketData, config: TradingConfig) -> Ridge:
    train, fill = market.train, _fills(market)
    cut = train.start + int(FITTED * train.days)
    first = Split("train", train.start, cut)
    second = Split("train", max(cut, train.stop - MOST_DAYS), train.stop)
    horizons = [horizon for horizon in HORIZONS if 4 * horizon < first.days] or [HORIZONS[0]]
    early = {horizon: fit(market, fill, first, horizon) for horizon in horizons}
    best, chosen = -np.inf, (horizons[0], 1, 0)
    for size in sizes(len(market.tradable)):
        grid = list(product(horizons, sorted({round(band * size) for band in BANDS})))
        bands = np.array([band for _, band in grid])
        policy = _policy(size, np.array([early[horizon] for horizon, _ in grid]), bands)
        earned = _earned(TradingCore(market, _rules(market, config, size), len(grid)), policy, second)
        row = int(earned.argmax())
        if earned[row] > best:
            best, chosen = float(earned[row]), (grid[row][0], size, grid[row][1])
    horizon, size, band = chosen
    coefficients = tuple(float(value) for value in fit(market, fill, train, horizon))
    return Ridge(ridge_key(market, config), horizon, size, band, coefficients)


def sizes(symbols: int) -> tuple[int, ...]:
    return tuple(size for size in SIZES if 2 * size <= symbols)[-5:] or (1,)


def fit(market: MarketData, fill: FloatArray, days: Split, horizon: int) -> FloatArray:
    """Coefficients `[feature]`; no price after `days.stop` is read. `fill` `[day, tradable]`, NaN where unknown."""
    count = len(market.feature_names)
    squares, products, rows = np.zeros((count, count)), np.zeros(count), 0
    last = days.stop - 1 - horizon
    step = max(1, CHUNK_ROWS // max(1, len(market.tradable)))
    for start in range(days.start, last, step):
        day = np.arange(start, min(start + step, last))
        later = np.log(fill[day + 1 + horizon] / fill[day + 1])
        known = market.mask[np.ix_(day, market.tradable)] & np.isfinite(later)
        features = market.features[np.ix_(day, market.tradable)].astype(np.float64)
        x, y = _less_mean(features, known[:, :, None])[known], _less_mean(later, known)[known]
        squares += x.T @ x
        products += x.T @ y
        rows += len(y)
    return np.asarray(np.linalg.solve(squares + PENALTY * max(rows, 1) * np.eye(count), products))


def _less_mean(values: FloatArray, known: npt.NDArray[np.bool_]) -> FloatArray:
    """Values `[day, symbol, ...]` less their mean over the known symbols of the day."""
    total = np.where(known, values, 0.0).sum(axis=1, keepdims=True)
    return np.asarray(values - total / np.maximum(known.sum(axis=1, keepdims=True), 1))


def _fills(market: MarketData) -> FloatArray:
    """`[day, tradable]` prices at which the orders of the day before are filled."""
    tables = price_tables(market)
    return np.where(tables.known & (tables.fill > 0.0), tables.fill, np.nan)


def _rules(market: MarketData, config: TradingConfig, size: int) -> TradingConfig:
    return config.model_copy(
        update={
            "actions": "orders",
            "reward": "log_equity",
            "max_new_positions": size,
            "position_fraction": 1.0 / size,
            "max_holding_days": len(market.dates) + 1,
            "settlement_days": 0,
            "threshold": 0.5,
            "target_high": NEVER,
        }
    )


def _policy(size: int, coefficients: FloatArray, bands: npt.NDArray[np.int64]) -> Policy:
    """`orders` actions [B, N, 2] of B portfolios with coefficients `[B, feature]` and bands `[B]`."""

    def policy(
        observation: Observation, market: MarketData, config: TradingConfig
    ) -> npt.NDArray[np.float64]:
        seen = np.ix_(observation.day, market.tradable)
        scores = np.einsum("bnf,bf->bn", market.features[seen].astype(np.float64), coefficients)
        known = market.mask[seen]
        order = np.argsort(np.where(known, -scores, np.inf), axis=1, kind="stable")
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(order.shape[1])[None], axis=1)
        held = observation.positions[:, :, 0] > 0
        action = np.zeros((*scores.shape, 2))
        # The best one asks loudest; all that ask are above the threshold.
        action[:, :, 0] = np.where(known & (rank < size), 1.0 - 0.4 * rank / size, 0.0)
        action[:, :, 0][held] = np.where(rank < size + bands[:, None], 0.0, -1.0)[held]
        action[:, :, 1] = 1.0
        return action

    return policy


def _earned(core: TradingCore, policy: Policy, days: Split) -> FloatArray:
    """Log return `[B]` over all of `days`."""
    observation = core.reset(np.full(core.batch, days.start), days.days - 1)
    for _ in range(days.days - 1):
        observation = core.step(policy(observation, core.market, core.config)).observation
    return np.log(np.maximum(core.equity, 1e-12))
