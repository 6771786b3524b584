"""What syncing costs training: the same run with and without a cloud, in turns.

    python bench/sync_cost.py [--pairs 6] [--quick]        cloud.url on `rclone serve s3`
    python bench/sync_cost.py --within [--generations 120] one run, in which half of the checkpoints are uploaded
    python bench/sync_cost.py --down [--pairs 2]           a server that refuses or stalls for the whole run

A small ERL run that commits a checkpoint after each of its 25 generations, about a CPU second apart. Compared are steps per
CPU second of the trainer process, all its threads, from the first generation to its exit, so that importing torch
neither hides nor adds anything; the server's CPU is another process's. Two runs of one seed differ by some percent on a
busy machine, so the second figure is the sharper one: the CPU time of the threads that only syncing has, over that of
the process, within one run. Whether training waits for the network shows in the seconds that its thread waits for
anything but a core. The last line is one JSON object.
"""

import argparse
import itertools
import json
import math
import os
import secrets
import shutil
import socket
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measured import measured
from s3_server import BUCKET, credentials, serving

LIMIT = 0.02
TASK = (
    "env.data=random_walk", "env.synthetic.days=600", "env.synthetic.symbols=8", "env.window=16",
    "env.trading_days=40", "env.settlement_days=5", "env.max_holding_days=10", "env.validation_days=100",
    "env.holdout_days=100", "env.embargo_days=5", "alg.direct_steps=0", "alg.windows=4", "alg.validation_windows=4",
    "alg.learners=1", "alg.elites=2", "alg.batch=64", "alg.learning_starts=100", "replay.capacity=20000",
)  # fmt: skip
SMALL = (*TASK, "alg.population=8", "alg.hidden=64", "alg.gradient_steps=80", "alg.generations=25")
LONG = (*TASK, "alg.population=4", "alg.hidden=32", "alg.gradient_steps=8")
"""Many short generations: what would pile up while the server is away does so fast."""
TRAINER = Path(__file__).with_name("sync_trainer.py")


def train(
    options: tuple[str, ...], address: str | None, below: Path, alternate: bool = False
) -> dict[str, Any]:
    """One run in a process of its own; `address` is its server's, None: no cloud."""
    root = Path(tempfile.mkdtemp(dir=below))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CLOUD_"))}
    environment = {**kept, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    cloud = ["cloud.url=off"]
    if address is not None:
        environment |= credentials(address)
        cloud = [f"cloud.url=s3://{BUCKET}/{root.name}", "cloud.drain_seconds=20"]
    command: list[str | Path] = [
        sys.executable, TRAINER, root / "facts.json", *(["--alternate"] if alternate else []), "train", *options, *cloud, f"run.root={root}", "run.name=run",
    ]  # fmt: skip
    usage = measured(command, environment, root / "log")
    facts = dict(json.loads((root / "facts.json").read_text()))
    facts |= {"wall": usage.wall, "peak_mb": usage.peak_mb, "speed": facts["steps"] / facts["training_cpu"]}
    shutil.rmtree(root)
    return facts


@contextmanager
def refusing() -> Iterator[str]:
    """An address that nobody listens on; it stays taken, so that nobody begins to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def stalling() -> Iterator[str]:
    """A server that accepts every connection and never says a word."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    held.append(listening.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


@contextmanager
def healthy() -> Iterator[str]:
    with serving() as server:
        yield server.address


SERVERS = {"synced": healthy, "refused": refusing, "stalled": stalling}


def pairs(names: tuple[str, ...], options: tuple[str, ...], count: int, below: Path) -> dict[str, Any]:
    """`count` rounds of a run without a cloud and one with each server; returns lists of facts by name."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ("plain", *names)}
    for round_ in range(count):
        order = list(found)[:: 1 if round_ % 2 == 0 else -1]
        for name in order:
            if name == "plain":
                facts = train(options, None, below)
            else:
                with SERVERS[name]() as address:
                    facts = train(options, address, below)
            found[name].append(facts)
            print(f"  round {round_} {name}: {json.dumps(facts)}", file=sys.stderr, flush=True)
    return found


def interval(values: list[float]) -> tuple[float, float]:
    """Of the median, from order statistics: at least 90 % for five values and more, all there is for fewer."""
    ordered = sorted(values)
    cut = {5: 0, 6: 0, 7: 0, 8: 1, 9: 1, 10: 1, 11: 2, 12: 2}.get(len(ordered), 0 if len(ordered) < 5 else 2)
    return ordered[cut], ordered[-1 - cut]


def summary(name: str, with_: list[dict[str, Any]], plain: list[dict[str, Any]]) -> dict[str, Any]:
    speeds = [one["speed"] / other["speed"] for one, other in zip(with_, plain, strict=True)]
    shares = [one["cloud_cpu"] / one["training_cpu"] for one in with_]
    low, high = interval(speeds)

    def median(key: str, runs: list[dict[str, Any]]) -> float:
        return statistics.median(float(run[key]) for run in runs)

    facts = {
        f"{name}_speed_ratio": statistics.median(speeds),
        f"{name}_speed_ratio_low": low,
        f"{name}_speed_ratio_high": high,
        f"{name}_share": statistics.median(shares),
        f"{name}_share_largest": max(shares),
        f"{name}_cloud_cpu_seconds": median("cloud_cpu", with_),
        f"{name}_training_cpu_seconds": median("training_cpu", with_),
        f"{name}_training_seconds": median("training_wall", with_),
        f"{name}_training_seconds_plain": median("training_wall", plain),
        f"{name}_waited_seconds": median("waited", with_),
        f"{name}_waited_seconds_plain": median("waited", plain),
        f"{name}_peak_mb_more": median("peak_mb", with_) - median("peak_mb", plain),
        f"{name}_grown_mb": median("grown_mb", with_),
        f"{name}_grown_mb_plain": median("grown_mb", plain),
    }
    print(
        f"{name:8} {facts[f'{name}_speed_ratio']:7.3f} [{low:.3f}, {high:.3f}] {facts[f'{name}_share']:10.2%}"
        f" {facts[f'{name}_training_seconds']:9.1f} {facts[f'{name}_training_seconds_plain']:8.1f}"
        f" {facts[f'{name}_waited_seconds']:8.1f} {facts[f'{name}_waited_seconds_plain']:8.1f}"
        f" {facts[f'{name}_peak_mb_more']:+9.1f} {facts[f'{name}_grown_mb']:8.1f} {facts[f'{name}_grown_mb_plain']:8.1f}",
        flush=True,
    )
    return {key: round(value, 5) for key, value in facts.items()}


def within(generations: int, below: Path) -> dict[str, Any]:
    """Generations that upload over those beside them that do not, in one process: the machine's moods cancel.

    What was not uploaded goes with the next one, so an upload carries up to two generations' replay and the ratio shows
    more than syncing every checkpoint costs. A generation is in up to two pairs, so the interval is a little too narrow.
    """
    with healthy() as address:
        run = train((*SMALL, f"alg.generations={generations}"), address, below, alternate=True)
    print(f"  {json.dumps(run)}", file=sys.stderr, flush=True)
    each: list[tuple[float, bool]] = [(cpu, uploads) for cpu, uploads in run["each"]]
    logs = [
        math.log(one / other) if uploads else math.log(other / one)
        for (one, uploads), (other, others) in itertools.pairwise(each)
        if uploads != others
    ]
    ordered = sorted(
        statistics.median(logs[secrets.randbelow(len(logs))] for _ in logs) for _ in range(2_000)
    )
    low, middle, high = (math.exp(-value) for value in (ordered[1950], statistics.median(logs), ordered[50]))
    print(
        f"within one run of {generations} generations: steps per CPU second with uploads over without "
        f"{middle:.3f} [{low:.3f}, {high:.3f}], {len(logs)} pairs; sync threads {run['cloud_cpu'] / run['training_cpu']:.2%}"
        " with half of the checkpoints uploaded"
    )
    return {
        "bench": "sync_cost", "within": True, "generations": generations, "pairs": len(logs),
        "within_speed_ratio": round(middle, 4), "within_speed_ratio_low": round(low, 4),
        "within_speed_ratio_high": round(high, 4), "within_share": round(run["cloud_cpu"] / run["training_cpu"], 5),
        "speed_ratio_within_limit": middle >= 1 - LIMIT,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, help="runs with and without; 6, with --down 2")
    parser.add_argument("--quick", action="store_true", help="one pair")
    parser.add_argument("--down", action="store_true", help="the server is down for the whole run")
    parser.add_argument("--within", action="store_true", help="generations with and without, in one run")
    parser.add_argument("--generations", type=int, help="of a run with --down (400) or --within (120)")
    chosen = parser.parse_args()
    count = 1 if chosen.quick else chosen.pairs or (2 if chosen.down else 6)
    names = ("refused", "stalled") if chosen.down else ("synced",)
    options = (*LONG, f"alg.generations={chosen.generations or 400}") if chosen.down else SMALL
    below = Path(tempfile.mkdtemp(prefix="eigen2-bench-sync-"))
    try:
        if chosen.within:
            print(json.dumps(within(chosen.generations or 120, below)))
            return
        found = pairs(names, options, count, below)
    finally:
        shutil.rmtree(below)
    facts: dict[str, Any] = {"bench": "sync_cost", "down": chosen.down, "pairs": count}
    print(
        "server   steps per CPU s       sync CPU    wall s    plain  waited s    plain   peak MB    grown    plain\n"
        "         over plain run        share                        for locks,        more      MB\n"
        "                                                            disk, net"
    )
    for name in names:
        facts |= summary(name, found[name], found["plain"])
    facts["share_within_limit"] = all(facts[f"{name}_share"] <= LIMIT for name in names)
    facts["speed_ratio_within_limit"] = all(facts[f"{name}_speed_ratio"] >= 1 - LIMIT for name in names)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
