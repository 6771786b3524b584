"""Markets made to order for benchmarks and tests: random prices, with gaps, delistings and close-only files."""

import hashlib

import numpy as np

from eigen2.market.data import FloatArray, MarketData, Split


def market_from_prices(
    close: FloatArray,
    open_: FloatArray | None = None,
    high: FloatArray | None = None,
    tradable: tuple[int, ...] | None = None,
    features: int = 2,
) -> MarketData:
    """A market from price tables [day, symbol]; NaN is unknown. All days are training days."""
    close = np.array(close, np.float64)
    days, symbols = close.shape
    mask = np.isfinite(close)
    returns = np.zeros((days, symbols), np.float32)
    with np.errstate(invalid="ignore"):
        returns[1:] = np.nan_to_num(close[1:] / close[:-1] - 1.0)
    whole = Split("train", 0, days)
    return MarketData(
        name="small",
        dates=np.datetime64("2000-01-03", "D") + np.arange(days),
        symbols=tuple(f"S{i}" for i in range(symbols)),
        tradable=np.arange(symbols) if tradable is None else np.array(tradable, np.int64),
        close=close,
        open=None if open_ is None else np.array(open_, np.float64),
        high=None if high is None else np.array(high, np.float64),
        low=None,
        volume=None,
        mask=mask,
        features=np.repeat(returns[:, :, None], features, axis=2),
        feature_names=tuple(f"f{i}" for i in range(features)),
        train=whole,
        validation=whole,
        holdout=whole,
        fingerprint=hashlib.sha256(close.tobytes()).hexdigest(),
    )


def random_market(
    seed: int,
    days: int,
    symbols: int,
    tradable: tuple[int, ...] | None = None,
    volatility: float = 0.02,
    bars: bool = True,
    unknown: float = 0.0,
    delisted: float = 0.0,
) -> MarketData:
    """Random walks; `unknown` is the share of missing cells, `delisted` the share of symbols that end early."""
    rng = np.random.default_rng(seed)
    close = 50.0 * np.exp(np.cumsum(rng.normal(0.0, volatility, (days, symbols)), axis=0))
    open_ = high = None
    if bars:
        before = np.vstack([close[:1], close[:-1]])
        open_ = before * np.exp(rng.normal(0.0, volatility / 2, close.shape))
        high = np.maximum(open_, close) * np.exp(np.abs(rng.normal(0.0, volatility / 2, close.shape)))
        open_[rng.random(close.shape) < unknown] = np.nan
        high[rng.random(close.shape) < unknown] = np.nan
    close[rng.random(close.shape) < unknown] = np.nan
    for symbol in np.flatnonzero(rng.random(symbols) < delisted):
        close[rng.integers(1, days) :, symbol] = np.nan
    return market_from_prices(close, open_, high, tradable)
