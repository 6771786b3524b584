import os
import platform
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from eigen2.errors import ConfigError
from eigen2.market.config import MarketConfig, SyntheticConfig
from eigen2.market.data import FloatArray
from eigen2.market.embedded import read_sample
from eigen2.market.load import load_market
from eigen2.market.oracles import HOLDING_DAYS, expected_excess, oracle_scores
from eigen2.market.prices import Prices
from eigen2.market.synthetic import generate

PLANTED = list(HOLDING_DAYS)
COST = 0.0015


def config(name: str, **made: object) -> MarketConfig:
    return MarketConfig(data=name, synthetic=SyntheticConfig(**made))


def log_returns(market_close: FloatArray) -> FloatArray:
    return np.diff(np.log(market_close), axis=0, prepend=np.log(market_close[:1]))


def traded(close: FloatArray, scores: FloatArray, sharpness: float, days: range) -> float:
    """Log return per 125 days of softmax weights, decided at t, filled at the close of t + 1, after costs."""
    simple = close[1:] / close[:-1] - 1
    weights = np.zeros(close.shape[1])
    total = 0.0
    for day in days:
        grown = weights * (1 + simple[day])
        value = grown.sum() + 1 - weights.sum()
        wanted = np.exp(sharpness * (scores[day] - scores[day].max()))
        wanted /= wanted.sum()
        total += np.log(value) + np.log(1 - COST * np.abs(wanted - grown / value).sum())
        weights = wanted
    return float(total / len(days) * 125)


@pytest.mark.parametrize("name", PLANTED)
def test_the_oracle_earns_its_excess_after_costs_on_days_it_was_not_tuned_on(name: str) -> None:
    excesses = []
    for seed in range(2):
        made = config(name)
        close = load_market(made, seed).close
        scores = oracle_scores(name, made, seed).astype(np.float64)
        grid = (100.0, 200.0, 400.0, 800.0)
        best = max(grid, key=lambda sharpness: traded(close, scores, sharpness, range(60, 1200)))
        later = range(1300, 2990)
        excesses.append(traded(close, scores, best, later) - traded(close, 0 * scores, best, later))
    assert 0.22 < np.mean(excesses) < 0.55


@pytest.mark.parametrize("name", PLANTED)
def test_scores_are_the_expected_excess_return_of_the_days_they_speak_about(name: str) -> None:
    made = config(name, days=20_000, symbols=10)
    returns = log_returns(load_market(made, 5).close)
    excess = returns - returns.mean(axis=1, keepdims=True)
    scores = oracle_scores(name, made, 5)
    assert scores.dtype == np.float32
    assert scores.shape == excess.shape
    days = len(excess) - 20
    ahead = sum(excess[2 + step : 2 + step + days] for step in range(HOLDING_DAYS[name]))
    expected = scores[:days].ravel().astype(np.float64)
    slope = float((expected * ahead.ravel()).sum() / np.square(expected).sum())
    assert slope == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("name", PLANTED)
def test_strength_zero_plants_nothing(name: str) -> None:
    made = config(name, days=4000, strength=0.0)
    assert (oracle_scores(name, made, 1) == 0).all()
    returns = log_returns(load_market(made, 1).close)
    scores = oracle_scores(name, config(name, days=4000), 1)[:-3].astype(np.float64)
    following = returns[2:-1] - returns[2:-1].mean(axis=1, keepdims=True)
    assert abs(np.corrcoef(scores.ravel(), following.ravel())[0, 1]) < 0.02


@pytest.mark.parametrize("name", PLANTED)
def test_oracle_scores_do_not_know_the_future(name: str) -> None:
    random = np.random.default_rng(0)
    excess = 0.02 * random.standard_normal((200, 6))
    other = excess.copy()
    other[101:] = 0.02 * random.standard_normal((99, 6))
    before, after = expected_excess(name, excess, 1.0), expected_excess(name, other, 1.0)
    np.testing.assert_array_equal(before[:101], after[:101])
    assert not np.array_equal(before[101:], after[101:])


def test_told_the_hidden_regime_the_momentum_oracle_is_stronger() -> None:
    made = config("planted_momentum")
    close = load_market(made, 0).close
    days = range(60, 2900)
    seen = traded(close, oracle_scores("planted_momentum", made, 0).astype(np.float64), 200, days)
    told = traded(
        close, oracle_scores("planted_momentum", made, 0, hidden=True).astype(np.float64), 600, days
    )
    assert told > seen + 0.1


def test_oracle_scores_lie_on_the_days_of_the_market() -> None:
    made = config("planted").model_copy(update={"start": "2001-01-01", "end": "2010-06-30"})
    assert oracle_scores("planted", made, 4).shape == load_market(made, 4).close.shape
    whole = oracle_scores("planted", config("planted"), 4)
    first = int(np.searchsorted(load_market(config("planted"), 4).dates, np.datetime64("2001-01-01")))
    np.testing.assert_array_equal(oracle_scores("planted", made, 4)[:50], whole[first : first + 50])


def test_markets_without_a_rule_have_no_oracle() -> None:
    for name in ("shuffled", "random_walk", "sp20"):
        with pytest.raises(ConfigError, match="no oracle; these have: planted_reversal"):
            oracle_scores(name, MarketConfig(data=name), 0)


@pytest.mark.parametrize("name", [*PLANTED, "random_walk", "shuffled"])
def test_same_seed_same_market_other_seed_other_market(name: str) -> None:
    first = generate(name, SyntheticConfig(), 1).fingerprint()
    assert generate(name, SyntheticConfig(), 1).fingerprint() == first
    assert generate(name, SyntheticConfig(), 2).fingerprint() != first


@pytest.mark.parametrize("name", [*PLANTED, "random_walk", "shuffled"])
def test_rounding_changes_the_fingerprint_and_not_the_rounded_one(name: str) -> None:
    prices = generate(name, SyntheticConfig(), 1)
    up, down = (
        Prices(
            prices.dates, prices.symbols, **{k: np.nextafter(a, limit) for k, a in prices.arrays().items()}
        )
        for limit in (np.inf, -np.inf)
    )
    assert len({prices.fingerprint(), up.fingerprint(), down.fingerprint()}) == 3
    assert len({prices.rounded_fingerprint(), up.rounded_fingerprint(), down.rounded_fingerprint()}) == 1
    other = replace(prices, close=prices.close * 1.001)
    assert other.rounded_fingerprint() != prices.rounded_fingerprint()


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the features of other processors have other names"
)
def test_processors_with_other_instructions_generate_the_same_market_but_for_rounding() -> None:
    program = (
        "from eigen2.market.config import SyntheticConfig; from eigen2.market.synthetic import generate; "
        "print(generate('planted_reversal', SyntheticConfig(), 1).rounded_fingerprint())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "NPY_DISABLE_CPU_FEATURES": without},
            capture_output=True, text=True, check=True,
        ).stdout
        for without in ("", "X86_V4 AVX512_ICL AVX512_SPR")
    }  # fmt: skip
    assert found == {generate("planted_reversal", SyntheticConfig(), 1).rounded_fingerprint() + "\n"}


def test_a_market_with_its_own_seed_ignores_the_run_seed() -> None:
    made = config("planted", seed=9)
    assert load_market(made, 1).fingerprint == load_market(made, 2).fingerprint
    assert load_market(made, 1).fingerprint == load_market(config("planted"), 9).fingerprint
    np.testing.assert_array_equal(oracle_scores("planted", made, 1), oracle_scores("planted", made, 2))


@pytest.mark.parametrize("name", [*PLANTED, "random_walk"])
def test_noise_is_of_realistic_size_with_a_common_factor(name: str) -> None:
    returns = log_returns(generate(name, SyntheticConfig(), 3).close)
    assert 0.015 < returns.std() < 0.02
    correlation = np.asarray(np.corrcoef(returns.T))
    assert 0.08 < correlation[np.triu_indices(12, 1)].mean() < 0.4


def test_shuffled_keeps_each_day_and_destroys_their_order() -> None:
    source = read_sample("sp20")
    market = generate("shuffled", SyntheticConfig(source="sp20"), 3)
    ours, theirs = log_returns(market.close)[1:], log_returns(source.close)[1:]
    order = np.lexsort(np.round(ours, 9).T), np.lexsort(np.round(theirs, 9).T)
    np.testing.assert_allclose(ours[order[0]], theirs[order[1]], atol=1e-8)
    assert not np.allclose(ours, theirs)
    np.testing.assert_allclose(market.close[-1], source.close[-1])
    volatility = np.abs(ours).mean(axis=1)
    assert abs(np.corrcoef(volatility[1:], volatility[:-1])[0, 1]) < 0.05


def test_shuffled_leaves_out_symbols_that_were_not_listed_throughout() -> None:
    market = generate("shuffled", SyntheticConfig(source="ohlcv5"), 3)
    assert market.symbols == ("AAPL", "IBM", "MSFT")
    assert market.mask.all()
    with pytest.raises(ConfigError, match="must be one of sp20, ohlcv5, etf23"):
        generate("shuffled", SyntheticConfig(source="planted"), 3)


def test_an_exploding_strength_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"strength=50.0 makes planted_reversal explode"):
        load_market(config("planted", strength=50.0), 0)
