"""Forecast against actual: `plan`, then the same run with a bucket in a directory, for five configurations.

RAM is the peak of the training process, disk what its directory holds at the end, upload what it put into the bucket.
`start` is what `train` forecasts by itself, without a calibration. A ratio is forecast over actual.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CONFIGS: dict[str, tuple[str, ...]] = {
    "erl sp20": ("alg.generations=3",),
    "erl 100x2500": (
        "env.data=random_walk", "env.synthetic.symbols=100", "env.synthetic.days=2500", "alg.generations=2",
    ),
    "pwm mlp": ("alg=pwm_small", "env=dflex_hopper", "alg.iterations=40", "alg.evaluate_every=20"),
    "pwm flow": (
        "alg=pwm_5M_flow", "env=dflex_hopper", "alg.iterations=4", "alg.evaluate_every=2", "alg.environments=32",
        "alg.model.bootstrap_updates=4", "alg.model.updates=2", "checkpoint.every=2",
    ),
    "sb3 sac": ("alg=sb3_sac", "env=gym", "alg.env_steps=1500", "alg.steps_per_round=500"),
}  # fmt: skip
FIELDS = ("ram_bytes", "disk_bytes", "upload_bytes")


def compare(overrides: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Forecasts by `plan` and by `train`, and what the run took."""
    with tempfile.TemporaryDirectory() as root:
        places = (f"run.root={root}/runs", f"cloud.url=file://{root}/bucket")
        planned = _command("plan", *overrides, *places)
        told = _command("train", *overrides, *places)
        trained = Path(told["run"])
        noted = json.loads((trained / "run.json").read_text())
        disk = sum(path.stat().st_size for path in trained.rglob("*") if path.is_file())
    return {
        "plan": planned,
        "start": noted["forecast"],
        "actual": {**noted["actual"], "disk_bytes": disk, "upload_bytes": told["cloud"]["sent_bytes"]},
    }


def _command(verb: str, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "eigen2", verb, *words, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{verb} {' '.join(words)}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def forecast_table(names: list[str]) -> dict[str, float]:
    """Prints the table; returns its ratios, flat."""
    facts: dict[str, float] = {}
    print(
        f"{'run':14} {'':7} {'RAM':>9} {'disk':>9} {'upload':>9} {'seconds':>9}   ratio: {'RAM':>5} {'disk':>5} {'upload':>6}"
    )
    for name in names:
        found = compare(CONFIGS[name])
        for kind, values in found.items():
            figures = [f"{values[field] / 1e6:6.1f} MB" for field in FIELDS]
            seconds = "" if values["seconds"] is None else f"{values['seconds']:.1f}"
            ratios = {field: values[field] / found["actual"][field] for field in FIELDS}
            shown = (
                ""
                if kind == "actual"
                else "          " + " ".join(f"{ratio:5.2f}" for ratio in ratios.values())
            )
            print(f"{name:14} {kind:7} {' '.join(figures)} {seconds:>9}{shown}", flush=True)
            if kind != "actual":
                facts |= {
                    f"{name}_{kind}_{field.removesuffix('_bytes')}": round(ratio, 3)
                    for field, ratio in ratios.items()
                }
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description="Are forecasts of memory, disk and upload right?")
    parser.add_argument("names", nargs="*", choices=[*CONFIGS, []], help="all when none is named")
    arguments = parser.parse_args()
    print(json.dumps(forecast_table(arguments.names or list(CONFIGS))))


if __name__ == "__main__":
    main()
