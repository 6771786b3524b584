"""Walk-forward: one champion after another, each trained on all days before those it is judged on; one honest curve.

The last N stretches of `holdout_days` are each held out by a fold of their own, whose training and validation days end
before them. Stretches share one day, the last close of one and the first decision of the next, so their daily returns
follow each other without a gap. The last fold is the run itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eigen2 import seeds
from eigen2.envs.config import TradingConfig
from eigen2.errors import ConfigError
from eigen2.evaluation.backtest import Backtest
from eigen2.evaluation.cost_curve import joined_curve
from eigen2.evaluation.market import MarketEvaluation
from eigen2.evaluation.pictures import data_card, growth_band
from eigen2.evaluation.record import Record
from eigen2.evaluation.result import Evaluation
from eigen2.evaluation.ridge import known_ridge
from eigen2.evaluation.statistics import performance
from eigen2.evaluation.verdict import beside_ridge, compare, edge, skill_verdict
from eigen2.market.data import FloatArray, MarketData
from eigen2.market.splits import days_needed

SPLIT = "walk_forward"
Piece = tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]
"""Facts and series of a fold's evaluation on its holdout."""


def fold_ends(market: MarketData, config: TradingConfig, folds: int) -> list[str]:
    """The last date of each fold but the last, which ends with the market."""
    if folds < 2:
        raise ConfigError(f"--walk-forward {folds}: it takes at least 2 folds")
    stride = config.holdout_days - 1
    room = (len(market.dates) - days_needed(config)) // stride + 1
    if folds > room:
        raise ConfigError(
            f"--walk-forward {folds}: {market.name} has {len(market.dates)} days, enough for {room} folds of "
            f"{config.holdout_days} held-out days each"
        )
    last = len(market.dates) - 1
    return [str(market.dates[last - stride * later]) for later in range(folds - 1, 0, -1)]


def joined(
    market: MarketData, config: TradingConfig, pieces: Sequence[Piece], names: Sequence[str], *, seed: int
) -> Evaluation:
    """The evaluation of the folds called `names`, day after day."""
    series = [series["returns"] for _, series in pieces]
    common = [name for name in series[0] if name != "date" and all(name in table for table in series)]
    returns: dict[str, FloatArray] = {
        name: np.concatenate([np.asarray(table[name], float) for table in series]) for name in common
    }
    dates = np.concatenate([np.asarray(table["date"], "datetime64[D]") for table in series])
    if (np.diff(dates.astype(int)) <= 0).any():
        raise ValueError("the folds of a walk-forward overlap")
    champions = max(int(facts.get("holdout", {}).get("champions", 1)) for facts, _ in pieces)
    comparison = compare(
        returns["champion"],
        returns["equal_weight"],
        market.frequency,
        seeds.generator(seed, "evaluation.comparison"),
        candidates=champions,
    )
    backtest = _champion(pieces, market)
    records = {name: _record(name, returns[name], pieces, market.periods_per_year, seed) for name in common}
    over_ridge = edge(
        returns["champion"] - returns["ridge"],
        market.periods_per_year,
        seeds.generator(seed, "evaluation.ridge"),
    )
    verdict = skill_verdict(comparison, int(backtest.trades[0]), "walk-forward")
    found = MarketEvaluation(
        market=market.name,
        split=SPLIT,
        name="champions",
        verdict=beside_ridge(verdict, over_ridge),
        champion=records.pop("champion"),
        benchmarks=records,
        comparison=comparison,
        over_ridge=over_ridge,
        ridge=known_ridge(market, config, [facts for facts, _ in pieces]),
        trials=sum(int(facts.get("trials", 0)) for facts, _ in pieces),
        effective_trials=None,
        validation_deflated_sharpe=None,
        pbo=None,
        uses=None,
        share_of_oracle=None,
        caveats=market.caveats,
        dates=dates,
        returns=returns,
        backtest=backtest,
        tradable=tuple(market.symbols[position] for position in market.tradable),
        band=growth_band(returns["champion"], seeds.generator(seed, "evaluation.band")),
        costs=joined_curve([series.get("costs") for _, series in pieces], config.fee_bp + config.slippage_bp),
        data=data_card(market),
    ).result()
    folds = [
        {
            "run": name,
            "first": str(table["date"][0])[:10],
            "last": str(table["date"][-1])[:10],
            "log_return": float(np.sum(table["champion"])),
            "equal_weight": float(np.sum(table["equal_weight"])),
            "verdict": facts.get("verdict"),
        }
        for name, table, (facts, _) in zip(names, series, pieces, strict=True)
    ]
    return replace(found, facts={**found.facts, "folds": folds})


def _champion(pieces: Sequence[Piece], market: MarketData) -> Backtest:
    """What the champions did, one after the other."""
    names = [market.symbols[position] for position in market.tradable]
    weights = [
        np.stack([np.asarray(series["weights"][name], np.float32) for name in names], axis=1)
        for _, series in pieces
    ]
    days = {
        name: np.concatenate([np.asarray(series["trades"][name]) for _, series in pieces])[None]
        for name in ("turnover", "opened")
    }
    returns = np.concatenate([np.asarray(series["returns"]["champion"], float) for _, series in pieces])[None]
    return Backtest(
        log_returns=returns,
        turnover=days["turnover"].astype(float),
        opened=days["opened"].astype(np.int64),
        weights=np.concatenate(weights)[None],
        periods_per_year=market.periods_per_year,
    )


def _record(name: str, returns: FloatArray, pieces: Sequence[Piece], per_year: int, seed: int) -> Record:
    """Performance of the joined days; habits are those of the folds."""
    own = [facts["champion"] if name == "champion" else facts["benchmarks"][name] for facts, _ in pieces]
    return Record(
        performance=performance(returns, per_year, seeds.generator(seed, f"evaluation.sharpe.{name}")),
        turnover=float(np.mean([figures["turnover"] for figures in own])),
        trades=float(np.sum([figures["trades"] for figures in own])),
        exposure=float(np.mean([figures["exposure"] for figures in own])),
    )
