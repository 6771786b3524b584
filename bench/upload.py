"""How fast a run goes up: `eigen2 sync push` beside `rclone copy` and boto3, to `rclone serve s3` on loopback.

    python bench/upload.py [--quick] [--rounds 3]

Two workloads of random content: 2,000 objects of 256 KiB, and one of 1 GiB. The contestants send the same files, each as a
process of its own to a fresh server over an empty directory, in turns. Eigen2's side is the real command: it
proves every object against its name before it sends it, proves what the server got by its ETag, holds the lease, and
puts manifests last; `nothing`, a run without objects, shows what of that is paid once. Seconds are medians over the
rounds. Server and client share the machine's cores with whatever else runs there, so the CPU seconds of the two
together are the steadier figure. The last line is one JSON object.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eigen2.config import load_config
from eigen2.harness.run import Run
from eigen2.store.manifest import Manifest, to_bytes
from eigen2.store.objects import Objects, Ref
from measured import Usage, measured
from s3_server import BUCKET, RCLONE, Server, serving

KIB = 1 << 10
WORKLOADS = {"nothing": (0, 0), "many": (2_000, 256 * KIB), "large": (1, 1 << 30)}
QUICK = {"nothing": (0, 0), "many": (200, 256 * KIB), "large": (1, 64 << 20)}
LIMIT_MB = 150.0
EIGEN2 = Path(sys.executable).with_name("eigen2")

Command = Callable[[Path, Server], list[str | Path]]


def eigen2(run: Path, server: Server) -> list[str | Path]:
    return [EIGEN2, "sync", "push", run, "--to", f"s3://{BUCKET}"]


def boto3(run: Path, server: Server) -> list[str | Path]:
    return [
        sys.executable, Path(__file__).with_name("upload_boto3.py"), run / "objects", BUCKET, "peer/objects",
    ]  # fmt: skip


def rclone(*options: str) -> Command:
    def command(run: Path, server: Server) -> list[str | Path]:
        remote = f":s3,provider=Rclone,env_auth=true,endpoint='http://{server.address}':{BUCKET}/peer"
        return [RCLONE, "copy", "--config", "", *options, run / "objects", f"{remote}/objects"]

    return command


CONTESTANTS: dict[str, Command] = {
    "eigen2": eigen2,
    "rclone": rclone(),
    "rclone_8": rclone("--transfers", "8", "--s3-upload-concurrency", "8"),
    "boto3": boto3,
}


def make_run(path: Path, count: int, size: int) -> None:
    """A run directory as training leaves it: config, run.json and a `latest` that names `count` objects."""
    (path / "checkpoints").mkdir(parents=True)
    objects = Objects(path / "objects")
    objects.root.mkdir()
    refs: dict[str, Ref] = {}
    for number in range(count):
        digest, new = hashlib.sha256(), path / "new"
        with open(new, "wb") as file:
            for start in range(0, size, 1 << 20):
                piece = os.urandom(min(1 << 20, size - start))
                digest.update(piece)
                file.write(piece)
        ref = Ref(digest.hexdigest(), size)
        objects.path(ref.hash).parent.mkdir(exist_ok=True)
        new.rename(objects.path(ref.hash))
        refs[f"state/{number}"] = ref
    manifest = Manifest("latest", 1, "2025-01-01T00:00:00Z", refs)
    (path / "checkpoints" / "latest.json").write_bytes(to_bytes(manifest))
    made = Run(path)
    made.write_config(load_config())
    made.identify()


def spoiled(server: Server, name: str, run: Path) -> str | None:
    """What a client left out or changed: it has not been faster then."""
    sent = {path.relative_to(run / "objects") for path in (run / "objects").rglob("*") if path.is_file()}
    place = server.stored / (run.name if name == "eigen2" else "peer") / "objects"
    for key in sent:
        try:
            with open(place / key, "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != str(key).replace("/", ""):
                    return f"{name} changed {key}"
        except FileNotFoundError:
            return f"{name} did not upload {key}"
    return None


def trial(name: str, run: Path, below: Path) -> tuple[Usage, float]:
    """What the client cost, and the server's CPU seconds."""
    # What earlier trials left for the disk to write must not slow this one down.
    os.sync()
    with serving(below) as server:
        usage = measured(CONTESTANTS[name](run, server), server.environment, below / "log")
        if wrong := spoiled(server, name, run):
            raise RuntimeError(wrong)
    return usage, server.cpu


def best_peer(medians: dict[str, float]) -> str:
    return min((name for name in medians if name != "eigen2"), key=medians.__getitem__)


def compare(workload: str, run: Path, below: Path, names: list[str], rounds: int) -> dict[str, Any]:
    results: dict[str, list[tuple[Usage, float]]] = {name: [] for name in names}
    for round_ in range(rounds):
        for turn in range(len(names)):
            name = names[(turn + round_) % len(names)]
            results[name].append(trial(name, run, below))
            last, served = results[name][-1]
            print(
                f"  {workload} {name}: {last.wall:.2f} s, {last.cpu:.2f} + {served:.2f} CPU s",
                file=sys.stderr,
                flush=True,
            )
    facts: dict[str, Any] = {}
    walls: dict[str, float] = {}
    both: dict[str, float] = {}
    for name, trials in results.items():
        seconds = [usage.wall for usage, _ in trials]
        walls[name], spread = statistics.median(seconds), max(seconds) - min(seconds)
        cpu = statistics.median(usage.cpu for usage, _ in trials)
        both[name] = statistics.median(usage.cpu + served for usage, served in trials)
        peak = max(usage.peak_mb for usage, _ in trials)
        print(
            f"{workload:8} {name:9} {walls[name]:7.2f} {spread:7.2f} {cpu:7.2f} {both[name]:9.2f} {peak:8.0f}",
            flush=True,
        )
        facts |= {
            f"{workload}_{name}_seconds": round(walls[name], 3),
            f"{workload}_{name}_spread_seconds": round(spread, 3),
            f"{workload}_{name}_cpu_seconds": round(cpu, 3),
            f"{workload}_{name}_cpu_seconds_with_server": round(both[name], 3),
            f"{workload}_{name}_peak_mb": round(peak, 1),
        }
    if len(walls) > 1 and "eigen2" in walls:
        for what, values in (("", walls), ("cpu_", both)):
            peer = best_peer(values)
            ratio = round(values["eigen2"] / values[peer], 3)
            facts |= {f"{workload}_{what}best_peer": peer, f"{workload}_{what}ratio": ratio}
            unit = "CPU of client and server" if what else "time"
            print(f"{workload:8} eigen2 / {peer}: {ratio:.2f} of its {unit}", flush=True)
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--directory", type=Path, help="where files are made; the system's temporary place")
    chosen = parser.parse_args()
    rounds = 1 if chosen.quick else chosen.rounds
    facts: dict[str, Any] = {"bench": "upload", "quick": chosen.quick, "rounds": rounds}
    print("workload contestant seconds  spread   CPU s  + server  peak MB")
    for workload in chosen.workloads:
        count, size = (QUICK if chosen.quick else WORKLOADS)[workload]
        below = Path(tempfile.mkdtemp(prefix="eigen2-bench-upload-", dir=chosen.directory))
        try:
            make_run(below / "run", count, size)
            facts |= {f"{workload}_objects": count, f"{workload}_bytes": count * size}
            facts |= compare(workload, below / "run", below, chosen.only, rounds)
        finally:
            shutil.rmtree(below)
    facts["eigen2_peak_mb"] = max(
        (value for name, value in facts.items() if name.endswith("eigen2_peak_mb")), default=0.0
    )
    facts["memory_within_limit"] = facts["eigen2_peak_mb"] <= LIMIT_MB
    facts["not_slower"] = all(facts.get(f"{workload}_ratio", 0.0) <= 1.0 for workload in ("many", "large"))
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
