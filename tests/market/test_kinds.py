"""Series that cannot be prices are known by how they move; real prices are not taken for them."""

from collections.abc import Callable

import numpy as np
import pytest

from eigen2.market.embedded import read_sample
from eigen2.market.grid import Grid
from eigen2.market.kinds import kind_findings
from eigen2.market.prices import Prices
from eigen2.market.stock_splits import suspected_splits

SAMPLES = ("sp20", "ohlcv5", "etf23")


def grid(prices: Prices) -> Grid:
    rows = np.broadcast_to(np.arange(2, prices.days + 2)[:, None], prices.close.shape)
    return Grid(prices, rows, "test", ("prices.csv",) * len(prices.symbols))


def every(prices: Prices, step: int) -> Prices:
    return Prices(prices.dates[::step], prices.symbols, prices.close[::step])


@pytest.mark.parametrize("name", SAMPLES)
def test_real_prices_are_prices_daily_weekly_and_monthly(name: str) -> None:
    prices = read_sample(name)
    assert kind_findings(grid(prices)) == []
    for step in (5, 21):
        assert kind_findings(grid(every(prices, step))) == []


def test_wild_prices_are_prices_too() -> None:
    """10 % a day with fat tails, as small coins have it, and a spread that makes them bounce."""
    random = np.random.default_rng(0)
    steps = 0.1 * random.standard_t(3, (1500, 40)) / np.sqrt(3)
    bounce = 0.02 * random.choice([-1, 1], (1500, 40))
    close = np.exp(np.cumsum(steps, axis=0) + bounce)
    dates = np.datetime64("2018-01-01") + np.arange(1500)
    found = kind_findings(grid(Prices(dates, tuple(f"C{i}" for i in range(40)), close)))
    assert [finding for finding in found if "volume" in finding.problem] == []


@pytest.mark.parametrize("step", [1, 5, 21])
def test_real_volumes_are_known_for_what_they_are(step: int) -> None:
    sample = read_sample("ohlcv5")
    volumes = Prices(sample.dates[::step], sample.symbols, sample.volume[::step])  # type: ignore[index]
    found = {
        finding.symbol for finding in kind_findings(grid(volumes)) if "looks like a volume" in finding.problem
    }
    assert found >= set(sample.symbols) - {"FB"} if step < 21 else len(found) >= 2


@pytest.mark.parametrize("name", SAMPLES)
def test_share_classes_and_funds_of_one_index_are_not_one_series(name: str) -> None:
    """A class at a discount that drifts, a thousand times the price, and a fund with other fees."""
    prices = read_sample(name)
    first = prices.close[:, 0]
    drift = np.exp(0.2 + np.cumsum(0.002 * np.random.default_rng(1).standard_normal(prices.days)))
    fees = np.exp(-1e-5 * np.arange(prices.days))
    close = np.column_stack([first, first / drift, 1500 * first / drift, first * fees])
    assert kind_findings(grid(Prices(prices.dates, ("BRK", "BRK.B", "BRK.A", "FUND"), close))) == []


def with_split(prices: Prices, day: int, symbol: int, new: int, old: int) -> Prices:
    """As if the split of this day had not been taken out of the prices before it."""
    arrays = {}
    for name, array in prices.arrays().items():
        arrays[name] = array.copy()
        arrays[name][:day, symbol] *= old / new if name == "volume" else new / old
    return Prices(prices.dates, prices.symbols, **arrays)


@pytest.mark.parametrize("name", SAMPLES)
def test_adjusted_samples_have_no_suspected_split(name: str) -> None:
    assert suspected_splits(read_sample(name)) == []


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("ratio", [(3, 2), (2, 1), (3, 1), (4, 1), (5, 1), (10, 1), (1, 2), (1, 5), (1, 10)])
def test_most_splits_of_every_common_ratio_are_found(name: str, ratio: tuple[int, int]) -> None:
    sample = read_sample(name)
    random = np.random.default_rng(0)
    found = 0
    for _ in range(40):
        symbol = int(random.integers(len(sample.symbols)))
        known = np.flatnonzero(sample.mask[:, symbol])
        day = int(random.choice(known[80:-30]))
        split = with_split(sample, day, symbol, *ratio).rows(day - 70, min(day + 30, sample.days))
        found += any((s.day, s.symbol, s.new, s.old) == (70, symbol, *ratio) for s in suspected_splits(split))
    assert found >= 28


def crash(after: float, volume: bool) -> Callable[[np.random.Generator], Prices]:
    """160 days with one crash of 25 to 75 %, wilder days after it, and ten times the volume."""

    def make(random: np.random.Generator) -> Prices:
        swing = np.full(160, 0.02)
        swing[81:] *= 1 + (after - 1) * np.exp(-np.arange(79) / 14)
        steps = swing * random.standard_t(4, 160) / np.sqrt(2)
        steps[80] = np.log(random.uniform(0.25, 0.75))
        close = 50 * np.exp(np.cumsum(steps))[:, None]
        traded = 1e6 * np.exp(0.3 * random.standard_normal((160, 1)))
        traded[80] *= 20
        dates = np.busday_offset(np.datetime64("2010-01-04"), np.arange(160))
        return Prices(dates, ("A",), close, volume=traded if volume else None)

    return make


@pytest.mark.parametrize(
    ("after", "volume", "most"), [(1.0, True, 0.05), (3.0, False, 0.15), (2.0, False, 0.25)]
)
def test_crashes_are_seldom_called_splits(after: float, volume: bool, most: float) -> None:
    random = np.random.default_rng(1)
    made = [crash(after, volume)(random) for _ in range(200)]
    assert sum(bool(suspected_splits(prices)) for prices in made) <= most * 200


def test_a_day_on_which_all_fall_is_no_split() -> None:
    sample = read_sample("sp20")
    close = sample.close[1000:1200].copy()
    close[100:] /= 2
    assert suspected_splits(Prices(sample.dates[1000:1200], sample.symbols, close)) == []
