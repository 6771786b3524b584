"""Does it learn? Planted reversal and momentum, orders and weights: gradient only, evolution only, both (`erl`), and
all agents learning (`erl_ddpg`).

Every run gets the same CPU budget and one thread. The score is the champion's share of the oracle's excess over equal
weight on a holdout of 1,650 days, at a quarter, half and the whole of the budget; untrained agents are shown beside it.

    ./run bench learning            5 seeds, two runs side by side (about 40 minutes on 2 idle cores)
    ./run bench learning --quick    1 seed
"""

import argparse
import json
import time
from itertools import product
from statistics import stdev
from typing import Any

from side_by_side import run_all

MARKETS = ("reversal", "momentum")
ACTIONS = ("orders", "weights")
MODES: dict[str, list[str]] = {
    "gradient": ["alg.variation=none", "alg.population=4", "alg.learners=4", "alg.elites=1"],
    "evolution": ["alg.learners=0"],
    "both": [],
    "erl_ddpg": ["alg=erl_ddpg"],
}
BUDGET = 60.0
"""CPU seconds of training."""
MOST = 90.0
"""CPU seconds that a whole run may take: start, training and judging."""
LEGS = (0.25, 0.5, 1.0)
MARKET = [
    "env.validation_days=500",
    "env.holdout_days=1650",
    "env.synthetic.days=5500",
    "env.synthetic.symbols=12",
]


def one_run(market: str, actions: str, mode: str, seed: int) -> dict[str, Any]:
    """Train in this process until the budget is spent; evaluation is not part of it."""
    import torch

    from eigen2.algorithms.erl.experiment import make_task, make_trainer
    from eigen2.algorithms.erl.market import MarketTask
    from eigen2.algorithms.erl.policy import market_policy
    from eigen2.config import load_config
    from eigen2.envs.trading import TradingCore
    from eigen2.evaluation.backtest import Policy, run_policy
    from eigen2.evaluation.market import evaluate_market
    from eigen2.nets.stacked import Params, take

    named = [f"env.data=planted_{market}", f"env.actions={actions}", f"seed={seed}", "alg.generations=1000"]
    config = load_config([*named, *MARKET, *MODES[mode]])
    torch.set_num_threads(config.threads)
    task = make_task(config)
    assert isinstance(task, MarketTask)
    data, env, trainer = task.market, task.env, make_trainer(config, task)
    actors = [take(trainer.actors, [0])]
    spent = 0.0
    for leg in LEGS:
        while spent < leg * BUDGET:
            began = time.process_time()
            trainer.step()
            spent += time.process_time() - began
        actors.append(trainer.champion.actor)

    def policy(actor: Params) -> Policy:
        return market_policy(task, actor)

    found = evaluate_market(data, env, policy(actors[-1]), "holdout", seed=seed, ledger=trainer.ledger)
    base, best = (float(found.returns[name].sum()) for name in ("equal_weight", "oracle"))

    def share(actor: Params) -> float:
        played = run_policy(TradingCore(data, env, 1), policy(actor), data.holdout)
        return (float(played.log_returns.sum()) - base) / (best - base)

    untrained, *shares = [*map(share, actors[:-1]), found.share_of_oracle]
    return {
        "market": market, "actions": actions, "mode": mode, "seed": seed, "shares": shares,
        "untrained": untrained, "skill": found.verdict.evidence_of_skill, "cpu": time.process_time(),
        "generations": trainer.generation,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--modes", nargs="*", default=list(MODES), choices=list(MODES))
    parser.add_argument("--workers", type=int, default=2, help="runs side by side")
    parser.add_argument(
        "--one", nargs=4, metavar=("MARKET", "ACTIONS", "MODE", "SEED"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.one:
        market, actions, mode, seed = options.one
        print(json.dumps(one_run(market, actions, mode, int(seed))))
        return
    seeds = range(options.first_seed, options.first_seed + (1 if options.quick else options.seeds))
    jobs = list(product(MARKETS, ACTIONS, options.modes, seeds))
    results = run_all(__file__, jobs, options.workers)
    summary = summarise(results, options.modes)
    print(json.dumps(summary))


def summarise(results: list[dict[str, Any]], modes: list[str]) -> dict[str, Any]:
    """Print the table; return the flat JSON object."""
    legs = [f"{leg * BUDGET:.0f} s" for leg in LEGS]
    print(
        f"{'market':10} {'actions':8} {'mode':10} "
        + " ".join(f"{leg:>7}" for leg in legs)
        + "   worst untrained skill"
    )
    flat: dict[str, Any] = {"budget_cpu_seconds": BUDGET}
    ok = True
    for market, actions in product(MARKETS, ACTIONS):
        means: dict[str, float] = {}
        for mode in modes:
            cell = [r for r in results if (r["market"], r["actions"], r["mode"]) == (market, actions, mode)]
            shares = [sum(r["shares"][leg] for r in cell) / len(cell) for leg in range(len(LEGS))]
            worst = min(r["shares"][-1] for r in cell)
            untrained = sum(r["untrained"] for r in cell) / len(cell)
            skill = sum(r["skill"] for r in cell)
            means[mode] = shares[-1]
            print(f"{market:10} {actions:8} {mode:10} " + " ".join(f"{s:7.2f}" for s in shares)
                  + f" {worst:7.2f} {untrained:9.2f} {skill:>3}/{len(cell)}")  # fmt: skip
            key = f"{market}_{actions}_{mode}"
            flat |= {f"{key}_mean": shares[-1], f"{key}_worst": worst, f"{key}_untrained": untrained}
            flat[f"{key}_skill"] = skill / len(cell)
            if mode == "both":
                ok = ok and shares[-1] >= 0.70 and worst >= 0.45
        if "both" in means and len(means) > 1:
            single = max((mode for mode in means if mode != "both"), key=means.__getitem__)
            ahead = means["both"] - means[single]
            error = paired_error(results, market, actions, single)
            spread = "" if error is None else f", standard error {error:.3f}"
            print(f"{market:10} {actions:8} both ahead of {single} by {ahead:+.3f}{spread}")
            flat[f"{market}_{actions}_both_minus_best_single"] = ahead
            flat[f"{market}_{actions}_both_minus_best_single_error"] = error
            ok = ok and ahead >= 0.0
    flat["most_cpu_seconds"] = max(r["cpu"] for r in results)
    flat["passed"] = ok and flat["most_cpu_seconds"] <= MOST
    return flat


def paired_error(results: list[dict[str, Any]], market: str, actions: str, single: str) -> float | None:
    """Standard error of the mean difference between both and `single` on the same seeds; None for one seed."""
    final = {
        (r["mode"], r["seed"]): r["shares"][-1]
        for r in results
        if (r["market"], r["actions"]) == (market, actions)
    }
    seeds = [seed for mode, seed in final if mode == "both"]
    differences = [final["both", seed] - final[single, seed] for seed in seeds]
    return stdev(differences) / len(seeds) ** 0.5 if len(seeds) > 1 else None


if __name__ == "__main__":
    main()
