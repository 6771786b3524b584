"""What parity costs: CPU seconds and bytes of saves with checkpoint.parity 0, 0.05 and 0.1, and of healing one object.

A state of some megabytes that changes every step, and a replay that grows and then turns over. Prints a table and, last,
one JSON line.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from eigen2.replay import Field, Replay, Schema
from eigen2.store.checkpoints import Checkpoints, NewCheckpoint
from eigen2.store.parity import heal

SHARES = (0.0, 0.05, 0.1)
SCHEMA = Schema(
    (Field("obs", (32,)),),
    (Field("action", (8,)), Field("reward"), Field("terminated", (), "bool"), Field("truncated", (), "bool")),
)


def steps(
    rng: np.random.Generator, time_: int, streams: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    lead = (time_, streams)
    no = np.zeros(lead, bool)
    step = {
        "obs": rng.random((*lead, 32), np.float32), "action": rng.random((*lead, 8), np.float32),
        "reward": rng.random(lead, np.float32), "terminated": no, "truncated": no,
    }  # fmt: skip
    return step, {"obs": rng.random((streams, 32), np.float32)}


def measured(share: float, saves: int, capacity: int) -> dict[str, float]:
    rng, replay = np.random.default_rng(0), Replay(SCHEMA, capacity, seed=0)
    with tempfile.TemporaryDirectory() as place:
        checkpoints = Checkpoints(Path(place))
        checkpoints.parity = share
        cpu = 0.0
        for step in range(saves):
            replay.extend(*steps(rng, capacity // saves // 16 * 2, 16))
            state = {name: {"w": rng.random(500_000, np.float32)} for name in ("actor", "critic", "moments")}
            began = time.process_time()
            checkpoints.save(NewCheckpoint(step, state, replay.snapshot()))
            cpu += time.process_time() - began
        manifest = checkpoints.load("latest").manifest
        size = sum(ref.size for name, ref in manifest.objects.items())
        parity = sum(ref.size for name, ref in manifest.objects.items() if name.startswith("parity/"))
        healed = 0.0
        if share:
            victim = next(iter(manifest.below("replay/").values()))
            checkpoints.objects.path(victim.hash).unlink()
            began = time.process_time()
            assert victim.hash in heal(checkpoints.objects, manifest)
            healed = time.process_time() - began
    return {
        "save_seconds": cpu / saves, "mb": size / 1e6, "parity_mb": parity / 1e6,
        "overhead": parity / (size - parity), "heal_seconds": healed,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small replay")
    quick = parser.parse_args().quick
    saves, capacity = (10, 50_000) if quick else (20, 400_000)
    found = {share: measured(share, saves, capacity) for share in SHARES}
    print(f"{'parity':>7} {'CPU s/save':>11} {'MB':>8} {'parity MB':>10} {'overhead':>9} {'heal, CPU s':>12}")
    for share, row in found.items():
        print(
            f"{share:7} {row['save_seconds']:11.3f} {row['mb']:8.1f} {row['parity_mb']:10.1f} {row['overhead']:9.1%} "
            f"{row['heal_seconds']:12.3f}"
        )
    flat = {f"{name}_{share}": round(value, 4) for share, row in found.items() for name, value in row.items()}
    print(json.dumps(flat))


if __name__ == "__main__":
    main()
