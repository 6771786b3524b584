"""What a wide market costs: 2 generations of 4 agents on 2,500 days of random walks, with 20 to 2,000 symbols.

Every run is `eigen2 train` in a process of its own on one thread; CPU seconds as the kernel counted them, and peak RSS.
Start-up is what the same process needs until the trainer exists (imports, prices, features, networks), measured in
another process and taken off where ratios are formed. `--quick` leaves 2,000 symbols out.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

WIDTHS = (20, 100, 500, 2_000)
NARROW, WIDE = 100, 500
TRAIN = "from eigen2.cli import main; main()"
START = (
    "import sys, eigen2.cli; from eigen2.config import load_config; "
    "from eigen2.algorithms.erl.experiment import make_task, make_trainer; "
    "config = load_config(sys.argv[1:]); make_trainer(config, make_task(config))"
)


@dataclass(frozen=True)
class Usage:
    user: float
    system: float
    peak_gb: float

    @property
    def cpu(self) -> float:
        return self.user + self.system


def overrides(symbols: int, root: str) -> list[str]:
    return [
        "env.data=random_walk", f"env.synthetic.symbols={symbols}", "env.synthetic.days=2500", "alg.population=4",
        "alg.generations=2", f"run.root={root}",
    ]  # fmt: skip


def measure(program: str, arguments: Sequence[str]) -> Usage:
    """Run `program` in a child and ask the kernel what it used."""
    child = os.posix_spawn(
        sys.executable, [sys.executable, "-c", program, *arguments], os.environ | {"OMP_NUM_THREADS": "1"},
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )  # fmt: skip
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"a child ended with exit code {os.waitstatus_to_exitcode(status)}")
    return Usage(used.ru_utime, used.ru_stime, used.ru_maxrss * 1024 / 1e9)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="leave 2,000 symbols out")
    widths = WIDTHS[:-1] if parser.parse_args().quick else WIDTHS
    facts: dict[str, float] = {}
    work: dict[int, float] = {}
    print(
        f"{'symbols':>8} {'user s':>8} {'system s':>9} {'share':>6} {'start-up s':>11} {'rest s':>8} {'peak GB':>8}"
    )
    for symbols in widths:
        with tempfile.TemporaryDirectory() as root:
            start = measure(START, overrides(symbols, root))
            run = measure(TRAIN, ["train", *overrides(symbols, root)])
        work[symbols] = run.cpu - start.cpu
        share = run.system / run.cpu
        print(
            f"{symbols:8d} {run.user:8.1f} {run.system:9.1f} {share:6.1%} {start.cpu:11.1f} {work[symbols]:8.1f} "
            f"{run.peak_gb:8.2f}",
            flush=True,
        )
        found = {
            "user_s": run.user, "system_s": run.system, "system_share": share, "start_s": start.cpu,
            "start_peak_gb": start.peak_gb, "rest_s": work[symbols], "peak_gb": run.peak_gb,
        }  # fmt: skip
        facts |= {f"symbols_{symbols}_{key}": round(value, 3) for key, value in found.items()}
    ratio = work[WIDE] / work[NARROW]
    print(f"{NARROW} -> {WIDE} symbols, start-up aside: {ratio:.2f} times the CPU")
    print(json.dumps({"bench": "width", "ratio": round(ratio, 3), **facts}))


if __name__ == "__main__":
    main()
