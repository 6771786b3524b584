"""The ledger keeps every trial it can, counts all, and forgets nothing on resume."""

import numpy as np
import pytest

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore
from eigen2.evaluation.backtest import run_policy
from eigen2.evaluation.ledger import TrialLedger, trial_ledger
from eigen2.evaluation.policies import equal_weight_benchmark
from eigen2.market.data import MarketData


def filled(generations: int, agents: int = 16, days: int = 252, capacity: int = 4096) -> TrialLedger:
    rng = np.random.default_rng(0)
    ledger = TrialLedger(rng.normal(size=days) * 0.01, capacity)
    for generation in range(generations):
        ledger.record(generation, rng.normal(size=(agents, days)) * 0.01)
    return ledger


def test_a_default_run_keeps_400_series_in_about_400_kilobytes() -> None:
    ledger = filled(25)
    assert ledger.trials == 400
    assert ledger.returns.shape == (400, 252)
    assert ledger.returns.nbytes == 400 * 252 * 4
    assert ledger.nbytes < 410_000


def test_a_long_run_is_thinned_evenly_and_still_counted_in_full() -> None:
    ledger = filled(300, agents=4, days=20, capacity=100)
    assert ledger.trials == 1200
    assert 50 <= len(ledger.returns) <= 100
    kept = ledger.state_dict()["generations"]
    assert set(np.diff(np.unique(kept))) == {16}
    assert kept[0] == 0
    assert kept[-1] > 280


def test_a_restored_ledger_continues_exactly() -> None:
    straight, resumed = filled(9, capacity=100), filled(5, capacity=100)
    copy = TrialLedger(resumed.benchmark, capacity=7)
    copy.load_state_dict(resumed.state_dict())
    rng = np.random.default_rng(1)
    for generation in range(5, 12):
        rows = rng.normal(size=(16, 252))
        copy.record(generation, rows)
        resumed.record(generation, rows)
    assert copy.trials == resumed.trials != straight.trials
    assert np.array_equal(copy.returns, resumed.returns)


def test_a_ledger_of_other_days_is_refused() -> None:
    ledger = filled(2)
    with pytest.raises(ValueError, match="other validation days"):
        TrialLedger(ledger.benchmark + 1).load_state_dict(ledger.state_dict())


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (np.zeros((3, 10)), "must be"),
        (np.full((3, 252), np.nan), "not finite"),
        (np.zeros((5000, 252)), "fit"),
    ],
)
def test_a_wrong_record_is_refused(rows: np.ndarray, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        filled(1).record(1, rows)


def test_excess_is_paired_by_day() -> None:
    ledger = TrialLedger([0.01, 0.02])
    ledger.record(0, [[0.03, 0.02]])
    assert ledger.excess == pytest.approx(np.array([[0.02, 0.0]]), abs=1e-8)


def test_a_ledger_starts_with_equal_weight_on_the_validated_days(
    noise: tuple[MarketData, TradingConfig],
) -> None:
    market, config = noise
    days = np.arange(3, 40)
    benchmark = equal_weight_benchmark(market, config, market.validation)
    played = run_policy(TradingCore(market, benchmark.config, 1), benchmark.policy, market.validation)
    ledger = trial_ledger(market, config, days)
    assert ledger.trials == 0
    np.testing.assert_array_equal(ledger.benchmark, played.log_returns[0, days].astype(np.float32))
