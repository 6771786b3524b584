"""The one door to a market: samples, synthetic markets and the user's own files all come in here."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eigen2.errors import ConfigError, DataError, MissingDataError
from eigen2.market import synthetic
from eigen2.market.cache import feature_key, read_features, write_features
from eigen2.market.catalogue import (
    CLOSE_ONLY,
    EMBEDDED,
    SYNTHETIC,
    canonical_name,
    known_names,
    nearest_name,
)
from eigen2.market.check import read_prices, rules_of
from eigen2.market.config import MarketConfig
from eigen2.market.data import MarketData
from eigen2.market.embedded import read_sample
from eigen2.market.features import require_fields, standardised
from eigen2.market.findings import Finding
from eigen2.market.frequency import frequency_of
from eigen2.market.kept import read_kept
from eigen2.market.prices import Prices
from eigen2.market.splits import length_note, make_splits


def load_market(
    config: MarketConfig, seed: int, *, cache: Path | None = None, kept: Path | None = None
) -> MarketData:
    """Prices, causal features, mask and splits of the market that `config.data` names.

    `seed` is used by synthetic markets that have no seed of their own. `cache` is a directory for computed features.
    `kept` is the file in which a run keeps its prices (`market.kept`), read instead of the user's own.
    """
    prices, name, caveats, warnings = _read(config, seed, kept)
    start, stop = used_days(prices, config)
    prices = prices.rows(start, stop)
    frequency = frequency_of(prices.dates)
    train, validation, holdout = make_splits(prices.days, config, name, frequency)
    lengths = length_note(config, frequency)
    fingerprint = prices.fingerprint()
    return MarketData(
        name=name,
        dates=prices.dates,
        symbols=prices.symbols,
        tradable=_tradable(prices, config),
        close=prices.close,
        open=prices.open,
        high=prices.high,
        low=prices.low,
        volume=prices.volume,
        mask=prices.mask,
        features=_features(prices, config, fingerprint, train.stop, cache),
        feature_names=tuple(config.features),
        train=train,
        validation=validation,
        holdout=holdout,
        fingerprint=fingerprint,
        caveats=(*caveats, *_unlisted(prices), *([lengths] if lengths else [])),
        warnings=warnings,
        rounded_fingerprint=prices.rounded_fingerprint() if canonical_name(config.data) in SYNTHETIC else "",
    )


def refusals(prices: Prices, config: MarketConfig, name: str) -> list[ConfigError | DataError]:
    """All that `load_market` would raise about these prices, not only the first of it."""
    refused: list[ConfigError | DataError] = []

    def splits() -> None:
        start, stop = used_days(prices, config)
        used = prices.rows(start, stop)
        make_splits(used.days, config, name, frequency_of(used.dates))

    demands: list[Callable[[], object]] = [
        splits,
        lambda: _tradable(prices, config),
        lambda: require_fields(prices, config.features),
    ]
    for demand in demands:
        try:
            demand()
        except (ConfigError, DataError) as error:
            refused.append(error)
    return refused


def used_days(prices: Prices, config: MarketConfig) -> tuple[int, int]:
    """Rows [start, stop) between `config.start` and `config.end`, both dates included."""
    start = 0 if config.start is None else int(np.searchsorted(prices.dates, _day("start", config.start)))
    stop = prices.days
    if config.end is not None:
        stop = int(np.searchsorted(prices.dates, _day("end", config.end), side="right"))
    return start, max(start, stop)


def _day(key: str, text: str) -> np.datetime64:
    try:
        return np.datetime64(text, "D")
    except ValueError:
        raise ConfigError(f"env.{key} is {text!r}; write a date such as 2010-01-31") from None


def _read(
    config: MarketConfig, seed: int, kept: Path | None
) -> tuple[Prices, str, tuple[str, ...], tuple[Finding, ...] | None]:
    """Raw prices, the market's name, what must be known about it, and the warnings if it is a file."""
    name = canonical_name(config.data)
    if name is None:
        prices, warnings = _read_file(config, kept)
        close_only = (CLOSE_ONLY,) if prices.open is None else ()
        caveats = (*close_only, *(finding.sentence() for finding in warnings))
        return prices, Path(config.data).stem, caveats, tuple(warnings)
    if name in EMBEDDED:
        return read_sample(name), name, EMBEDDED[name].caveats, None
    made = config.synthetic
    prices = synthetic.generate(name, made, synthetic.market_seed(made, seed))
    return prices, name, SYNTHETIC[name].caveats, None


def _read_file(config: MarketConfig, kept: Path | None) -> tuple[Prices, list[Finding]]:
    data = config.data
    path = Path(data).expanduser()
    if kept is not None:
        return read_kept(kept, path)
    if not path.exists():
        sentence = f"env.data={data} is neither a file nor a known market; {_advice(path)}"
        raise MissingDataError("env.data", data, sentence)
    return read_prices(path, rules_of(config))


def _advice(path: Path) -> str:
    """A file that is called nearly so, for what looks like a file; else the market that is."""
    if path.suffix or len(path.parts) > 1:
        folder = path.parent
        names = [found.name for found in folder.iterdir()] if folder.is_dir() else []
        near = get_close_matches(path.name, names, n=1, cutoff=0.7)
        if near:
            return f"did you mean {folder / near[0]}?"
        return "check the path" if folder.is_dir() else f"there is no directory {folder}"
    name = nearest_name(str(path))
    return f"did you mean {name}?" if name else f"known names are {', '.join(known_names())}"


def _tradable(prices: Prices, config: MarketConfig) -> npt.NDArray[np.int64]:
    """Positions of the symbols that may be traded, ascending."""
    _known_symbols("context", config.context, prices)
    _known_symbols("tradable", config.tradable or (), prices)
    both = sorted(set(config.context) & set(config.tradable or ()))
    if both:
        raise ConfigError(f"{', '.join(both)} cannot be in both env.tradable and env.context")
    chosen = set(prices.symbols if config.tradable is None else config.tradable) - set(config.context)
    if not chosen:
        raise ConfigError("no symbol may be traded: env.context names them all, or env.tradable is empty")
    return np.array([i for i, symbol in enumerate(prices.symbols) if symbol in chosen], dtype=np.int64)


def _known_symbols(key: str, symbols: Iterable[str], prices: Prices) -> None:
    for symbol in symbols:
        if symbol not in prices.symbols:
            near = get_close_matches(symbol, prices.symbols, n=1, cutoff=0.0)
            raise ConfigError(
                f"env.{key} names {symbol}, which these prices do not have; the nearest is {near[0]}"
            )


def _unlisted(prices: Prices) -> tuple[str, ...]:
    return tuple(
        f"{prices.symbols[position]} has no prices on the chosen days and can never be traded"
        for position in np.flatnonzero(~prices.mask.any(axis=0))
    )


def _features(
    prices: Prices, config: MarketConfig, fingerprint: str, train_stop: int, cache: Path | None
) -> npt.NDArray[np.float32]:
    """[day, symbol, feature], from the cache when it holds them."""
    if cache is None:
        return standardised(prices, config.features, train_stop)
    key = feature_key(fingerprint, tuple(config.features), train_stop)
    found = read_features(cache, key, (prices.days, len(prices.symbols), len(config.features)))
    if found is None:
        found = standardised(prices, config.features, train_stop)
        write_features(cache, key, found)
    return found
