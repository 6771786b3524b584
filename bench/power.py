"""What a holdout of so many days finds: the verdict's rule on simulated champions of a known Sharpe ratio.

A champion earns 0.8 of the market and an alpha of the given annual Sharpe ratio; both have fat tails and storms (GARCH).
Beside each figure stands what `evaluate` prints, which is computed. The table is the one in
docs/how-results-can-fool-you.md.

    ./run bench power               400 champions of each kind (about 6 CPU minutes)
    ./run bench power --quick       40
"""

import argparse
import json
from itertools import product

import numpy as np

from eigen2 import seeds
from eigen2.evaluation.power import power
from eigen2.evaluation.verdict import compare, skill_verdict
from eigen2.market.data import FloatArray
from eigen2.market.frequency import EXCHANGE

SHARPES = (0.0, 0.5, 1.0, 2.0, 3.0)
DAYS = (250, 500, 1500)
YEAR = EXCHANGE.periods_per_year


def storms(rng: np.random.Generator, series: int, days: int) -> FloatArray:
    """GARCH(1, 1) of unit variance with t innovations of six degrees of freedom, `[series, day]`."""
    shocks = rng.standard_t(6, size=(days + 200, series)) * np.sqrt(4.0 / 6.0)
    variance, steps = np.ones(series), np.empty_like(shocks)
    for day, shock in enumerate(shocks):
        steps[day] = np.sqrt(variance) * shock
        variance = 0.05 + 0.05 * steps[day] ** 2 + 0.90 * variance
    return np.asarray(steps[200:].T)


def found(sharpe: float, days: int, champions: int) -> float:
    """Share of the champions that are called skilled."""
    rng = seeds.generator(days, "power", round(10 * sharpe))
    market = 0.0003 + 0.01 * storms(rng, champions, days)
    alpha = 0.006 * (storms(rng, champions, days) + sharpe / np.sqrt(YEAR))
    returns = np.log1p(0.8 * market + alpha)
    praised = 0
    for number in range(champions):
        paired = compare(
            returns[number], np.log1p(market[number]), EXCHANGE, seeds.generator(number, "bootstrap"), 1000
        )
        praised += skill_verdict(paired, 1, "holdout").evidence_of_skill
    return praised / champions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="40 champions of each kind")
    parser.add_argument("--champions", type=int, default=400, help="of each kind")
    options = parser.parse_args()
    champions = 40 if options.quick else options.champions
    shares = {(s, d): found(s, d, champions) for s, d in product(SHARPES, DAYS)}
    print("| true Sharpe ratio | " + " | ".join(f"{days:,} days" for days in DAYS) + " |")
    print("|---" * (1 + len(DAYS)) + "|")
    for sharpe in SHARPES:
        cells = (f"{shares[sharpe, d]:.0%} ({power(sharpe, d, YEAR):.0%})" for d in DAYS)
        print(f"| {sharpe:g} | " + " | ".join(cells) + " |")
    worst = max(abs(share - power(sharpe, days, YEAR)) for (sharpe, days), share in shares.items())
    print(json.dumps({"champions": champions, "worst_difference": round(worst, 3), "passed": worst <= 0.1}))


if __name__ == "__main__":
    main()
