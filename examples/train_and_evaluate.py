"""Train and evaluate from Python. More settings may follow: `python examples/train_and_evaluate.py seed=3`."""

import sys
from pathlib import Path

from rich.console import Console

from eigen2.harness.directory import find_run
from eigen2.harness.evaluating import evaluate_run
from eigen2.harness.training import start_run

SETTINGS = [
    "env.data=planted_reversal",  # a synthetic market with an effect that can be learned
    "env.synthetic.days=1500",
    "alg.population=8",
    "alg.generations=3",
    "run.report=false",
]


def main(settings: list[str]) -> None:
    trained = start_run([*SETTINGS, *settings], Console(stderr=True))
    run = find_run(trained["run"], Path("runs"))
    evaluation = evaluate_run(run, "holdout", say=print)
    print("champion    ", round(evaluation.facts["champion"]["log_return"], 3))
    print("equal weight", round(evaluation.facts["benchmarks"]["equal_weight"]["log_return"], 3))
    print(evaluation.facts["verdict"])


if __name__ == "__main__":
    main(sys.argv[1:])
