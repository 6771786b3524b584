"""Does it fool itself? The verdict on markets without any skill to find, and on planted ones.

./run bench skill               20 null runs, 20 planted runs (about 35 minutes on 2 idle cores)
./run bench skill --quick       2 of each kind
"""

import argparse
import json
import os
import tempfile
from itertools import product
from typing import Any

from learning import MARKET
from side_by_side import run_all

GENERATIONS = 12
NULL = {"shuffled": ["env.data=shuffled"], "random_walk": ["env.data=random_walk", *MARKET]}
PLANTED = {name: [f"env.data=planted_{name}", *MARKET] for name in ("reversal", "momentum")}
ACTIONS = ("orders", "weights")


def one_run(market: str, actions: str, seed: int) -> dict[str, Any]:
    """Train with the default settings and evaluate on the holdout once."""
    from eigen2.algorithms import registry
    from eigen2.config import load_config
    from eigen2.harness.host import Host

    chosen = (NULL | PLANTED)[market]
    named = [f"env.actions={actions}", f"seed={seed}", f"alg.generations={GENERATIONS}"]
    config = load_config([*chosen, *named])
    os.environ["EIGEN2_LEDGER"] = tempfile.mkdtemp(prefix="eigen2-bench-")
    with registry.algorithm(config.alg.kind).open(config, Host(config).services) as experiment:
        while not experiment.trainer.done:
            experiment.trainer.step()
        found = experiment.evaluate("holdout").facts
    return {
        "market": market, "actions": actions, "seed": seed, "skill": found["evidence_of_skill"],
        "alpha": found["alpha"]["annual"], "deflated_sharpe": found["deflated_sharpe"], "pbo": found["pbo"],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed of each kind")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=101)
    parser.add_argument("--workers", type=int, default=2, help="runs side by side")
    parser.add_argument("--markets", nargs="*", default=[*NULL, *PLANTED], choices=[*NULL, *PLANTED])
    parser.add_argument("--one", nargs=3, metavar=("MARKET", "ACTIONS", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        market, actions, seed = options.one
        print(json.dumps(one_run(market, actions, int(seed))))
        return
    seeds = range(options.first_seed, options.first_seed + (1 if options.quick else options.seeds))
    results = run_all(__file__, list(product(options.markets, ACTIONS, seeds)), options.workers)
    print(f"{'market':12} {'actions':8} evidence of skill")
    for market, actions in product(options.markets, ACTIONS):
        cell = [r for r in results if (r["market"], r["actions"]) == (market, actions)]
        print(f"{market:12} {actions:8} {sum(r['skill'] for r in cell)} of {len(cell)}")
    null = [r["skill"] for r in results if r["market"] in NULL]
    planted = [r["skill"] for r in results if r["market"] in PLANTED]
    flat = {
        "null_runs": len(null),
        "null_praised": sum(null),
        "planted_runs": len(planted),
        "planted_found": sum(planted),
        "passed": bool(null and planted) and sum(null) <= 1 and sum(planted) >= 0.8 * len(planted),
    }
    print(json.dumps(flat))


if __name__ == "__main__":
    main()
