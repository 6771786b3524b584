"""What the choice of a champion among many trials on the validation days amounts to."""

import numpy as np

from eigen2 import seeds
from eigen2.envs.config import TradingConfig
from eigen2.evaluation import overfitting
from eigen2.evaluation.backtest import Strategy, play
from eigen2.evaluation.ledger import TrialLedger
from eigen2.evaluation.policies import equal_weight_benchmark
from eigen2.evaluation.verdict import market_neutral
from eigen2.market.data import MarketData


def selection(
    market: MarketData, config: TradingConfig, champion: Strategy, ledger: TrialLedger | None, seed: int
) -> tuple[float | None, float | None, float | None]:
    """Effective trials, deflated Sharpe ratio on the validation days and PBO; all None without trials."""
    if ledger is None or ledger.trials == 0:
        return None, None, None
    days = market.validation
    own = play(market, champion, days).log_returns[0]
    equal_weight = play(market, equal_weight_benchmark(market, config, days), days).log_returns[0]
    alpha, _ = market_neutral(np.expm1(own), np.expm1(equal_weight))
    tried, _ = market_neutral(
        np.expm1(ledger.returns.astype(np.float64)), np.expm1(ledger.benchmark.astype(np.float64))
    )
    effective = overfitting.effective_trials(tried, seeds.generator(seed, "evaluation.trials"))
    return (
        effective,
        overfitting.deflated_sharpe(alpha, effective),
        overfitting.backtest_overfitting(ledger.excess),
    )
