"""Does it fool itself across runs? 40 runs on null markets, two on each holdout, and two uses by each of them.

Ten generations of eight agents; the champion is shown to the holdout half-way and at the end, so each of the 20 holdouts
is used four times. All uses are counted in one ledger, which runs side by side share. At most one of the 80 verdicts
may be "evidence of skill".

    ./run bench holdouts            40 runs (about 20 CPU minutes)
    ./run bench holdouts --quick    10 runs, one holdout of each kind
"""

import argparse
import json
import os
import tempfile
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from null_markets import KINDS, write_null_prices
from side_by_side import run_all

ACTIONS = ("orders", "weights")
SMALL = ["alg.population=8", "alg.generations=10"]


def one_run(kind: str, number: int, seed: int) -> dict[str, Any]:
    from eigen2.algorithms import registry
    from eigen2.config import load_config
    from eigen2.harness.host import Host

    with tempfile.TemporaryDirectory() as place:
        # Every run has a file of its own: the ledger must find out that the prices are the same.
        path = Path(place) / f"prices-{seed}.csv"
        write_null_prices(kind, number, path)
        actions = f"env.actions={ACTIONS[number % 2]}"
        config = load_config([f"env.data={path}", actions, f"seed={seed}", *SMALL])
        found: list[dict[str, Any]] = []
        services = replace(Host(config).services, evaluations=lambda: found)
        with registry.algorithm(config.alg.kind).open(config, services) as experiment:
            trainer, steps = experiment.trainer, 0
            while not trainer.done:
                trainer.step()
                steps += 1
                if steps in (trainer.steps // 2, trainer.steps):
                    found.append(experiment.evaluate("holdout").facts)
    return {
        "kind": kind, "number": number, "seed": seed,
        "skill": [use["evidence_of_skill"] for use in found],
        "looks": [use["holdout_looks"] for use in found],
        "deflated_sharpe": [use["deflated_sharpe"] for use in found],
        "alone": [_alone(use) for use in found],
    }  # fmt: skip


def _alone(use: dict[str, Any]) -> bool:
    """Roughly, whether somebody who counts nobody else's uses would be pleased: the 95 % interval is above zero."""
    return bool((use["equal_risk"] or 0.0) > 0.0 and use["alpha"]["ci"][0] > 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one holdout of each kind")
    parser.add_argument("--holdouts", type=int, default=4, help="of each kind")
    parser.add_argument("--workers", type=int, default=2, help="runs side by side")
    parser.add_argument("--one", nargs=3, metavar=("KIND", "NUMBER", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, number, seed = options.one
        print(json.dumps(one_run(kind, int(number), int(seed))))
        return
    numbers = range(1 if options.quick else options.holdouts)
    with tempfile.TemporaryDirectory() as place:
        os.environ["EIGEN2_LEDGER"] = str(Path(place) / "ledger.jsonl")
        results = run_all(__file__, list(product(KINDS, numbers, (1, 2))), options.workers)
    print(f"{'market':12} {'runs':>4} {'uses':>4} {'evidence of skill':>18} {'95 % alone':>19}")
    for kind in KINDS:
        cell = [r for r in results if r["kind"] == kind]
        uses = sum(len(r["looks"]) for r in cell)
        praised, alone = (sum(sum(r[key]) for r in cell) for key in ("skill", "alone"))
        print(f"{kind:12} {len(cell):4} {uses:4} {praised:18} {alone:19}")
    most = [max(max(r["looks"]) for r in results if (r["kind"], r["number"]) == holdout)
            for holdout in product(KINDS, numbers)]  # fmt: skip
    praised = sum(sum(r["skill"]) for r in results)
    flat = {
        "runs": len(results),
        "uses": sum(len(r["looks"]) for r in results),
        "praised": praised,
        "above_zero_at_95": sum(sum(r["alone"]) for r in results),
        "every_use_counted": all(count == 4 for count in most),
    }
    print(json.dumps(flat | {"passed": praised <= 1 and flat["every_use_counted"]}))


if __name__ == "__main__":
    main()
