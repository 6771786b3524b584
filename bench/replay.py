"""What replay costs: RAM, saving, loading and sampling, beside other libraries' buffers in the same run.

The seed's shape (504 days x 669 columns x 5 features, two copies per transition when stored plainly) with 200 windows
for the others and all 50,000 for us; the same 50,000 through the trading environment's compact observation; and small
Ant-sized records. Every part runs in a process of its own on one thread. CPU seconds throughout; extrapolations are
marked with ~.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore
from eigen2.replay import Field, Replay, Schema
from eigen2.replay.schema import STEP_FIELDS
from eigen2.store.objects import reference
from replay_ant import part_ant
from replay_peers import PEERS
from small_markets import random_market

DAYS, WINDOW, SYMBOLS, FEATURES, TRADABLE = 3888, 504, 669, 5, 108
CAPACITY, MORE, EPISODE, PEER_WINDOWS, BATCH = 50_000, 2_000, 145, 200, 32
Array = npt.NDArray[Any]
Figures = dict[str, float]


def cpu(work: Callable[[], Any], repeat: int = 1) -> float:
    """CPU seconds of the fastest of `repeat` calls: other load only ever slows one down."""
    fastest = float("inf")
    for _ in range(repeat):
        began = time.process_time()
        work()
        fastest = min(fastest, time.process_time() - began)
    return fastest


def memory(key: str) -> int:
    """Bytes of this process: VmRSS now, RssAnon without file pages, VmHWM the peak since `reset_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(key + ":"))


def reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def market_table() -> Array:
    """Five features of random-walk prices, normalised once, float32 ``[day, symbol, feature]``."""
    rng = np.random.default_rng(0)
    price = np.cumsum(rng.normal(0.0, 0.02, (DAYS + 20, SYMBOLS)), axis=0)
    returns = np.diff(price, axis=0, prepend=0.0)
    mean = np.lib.stride_tricks.sliding_window_view(price, 20, axis=0).mean(axis=-1)
    spread = np.lib.stride_tricks.sliding_window_view(returns, 20, axis=0).std(axis=-1)
    columns = [price[20:], returns[20:], price[20:] - price[15:-5], price[20:] - mean[1:], spread[1:]]
    table = np.stack(columns, axis=-1)
    return np.ascontiguousarray((table - table.mean(axis=(0, 1))) / table.std(axis=(0, 1)), np.float32)


class Folder:
    """Objects as plain files, named and proven as the store does it, flushed to the disk."""

    def __init__(self, path: Path) -> None:
        self.path, self.known, self.written = path, set[str](), 0

    def save(self, replay: Replay) -> dict[str, Any]:
        self.written = 0
        return replay.snapshot().write(self.put, self.known.__contains__)

    def put(self, chunks: list[bytes]) -> str:
        ref = reference(chunks)
        if ref.hash not in self.known:
            with (self.path / ref.hash).open("wb") as file:
                file.writelines(chunks)
                file.flush()
                os.fsync(file.fileno())
            self.known.add(ref.hash)
            self.written += ref.size
        return ref.hash

    def read(self, name: str) -> bytes:
        content = (self.path / name).read_bytes()
        assert reference([content]).hash == name, f"{name} is damaged"
        return content


def persistence(replay: Replay, add_more: Callable[[], None], check: Callable[[Replay], None]) -> Figures:
    """Full save, save after 2,000 more transitions, load; the loaded one must draw the same batches."""
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path))
        before = reset_peak()
        figures = {"save_cpu_s": cpu(lambda: folder.save(replay))}
        figures |= {"save_peak_mb": (memory("VmHWM") - before) / 1e6, "disk_mb": folder.written / 1e6}
        add_more()
        manifests: list[dict[str, Any]] = []
        figures["more_save_cpu_s"] = cpu(lambda: manifests.append(folder.save(replay)))
        figures["more_written_mb"] = folder.written / 1e6
        loaded: list[Replay] = []
        figures["load_cpu_s"] = cpu(lambda: loaded.append(Replay.restore(manifests[0], folder.read)))
        for _ in range(3):
            one, other = replay.sample(BATCH), loaded[0].sample(BATCH)
            for group in ("observation", "next_observation", "step"):
                pairs = zip(getattr(one, group).values(), getattr(other, group).values(), strict=True)
                assert all(torch.equal(a, b) for a, b in pairs), f"{group} differs after loading"
            check(replay)
            check(loaded[0])
    return figures


class WindowFeed:
    """Episodes of full windows over one market table, started anywhere; remembers each transition's day."""

    def __init__(self, table: Array) -> None:
        self.table, self.rng, self.days = table, np.random.default_rng(1), list[int]()

    def windows(self, day: int, count: int) -> Array:
        """Full windows ``[count, WINDOW, SYMBOLS, FEATURES]`` of consecutive days."""
        first = self.table[day - WINDOW + 1 :]
        return np.lib.stride_tricks.as_strided(
            first, (count, *first[:WINDOW].shape), (first.strides[0], *first.strides)
        )

    def episode(self, replay: Replay, steps: int) -> None:
        day = int(self.rng.integers(WINDOW, DAYS - EPISODE - 1))
        shown = self.windows(day, steps + 1)[:, None]
        last = np.zeros((steps, 1), bool)
        last[-1] = True
        self.days += range(day, day + steps)
        replay.extend(
            {
                "window": shown[:-1],
                "action": self.rng.random((steps, 1, TRADABLE, 2), np.float32),
                "reward": self.rng.random((steps, 1), np.float32),
                "terminated": np.zeros_like(last),
                "truncated": last,
            },
            {"window": shown[-1]},
        )

    def check(self, replay: Replay) -> None:
        """A sampled batch equals the naive copies, bit for bit."""
        batch = replay.sample(BATCH)
        for i, number in enumerate(batch.index.tolist()):
            now, after = self.windows(self.days[number], 2)
            np.testing.assert_array_equal(
                batch.observation["window"][i].numpy().view(np.int32), now.view(np.int32)
            )
            np.testing.assert_array_equal(
                batch.next_observation["window"][i].numpy().view(np.int32), after.view(np.int32)
            )


def part_rows() -> Figures:
    """Our row store, fed with 50,000 full windows."""
    feed = WindowFeed(market_table())
    fields = (Field("window", (WINDOW, SYMBOLS, FEATURES)),)
    gc.collect()
    before = memory("VmRSS")
    replay = Replay(Schema(fields, (Field("action", (TRADABLE, 2)), *STEP_FIELDS)), CAPACITY, seed=0)
    began = time.process_time()
    while len(replay) < CAPACITY:
        feed.episode(replay, min(EPISODE, CAPACITY - len(replay)))
    figures = {"add_cpu_ms": (time.process_time() - began) / CAPACITY * 1e3}
    figures |= {"ram_mb": (memory("VmRSS") - before) / 1e6, "naive_gb": replay.info()["naive_bytes"] / 1e9}

    def more() -> None:
        for _ in range(MORE // 125):
            feed.episode(replay, 125)

    figures |= persistence(replay, more, feed.check)
    for _ in range(5):
        feed.check(replay)
    figures["sample_cpu_ms"] = cpu(lambda: replay.sample(BATCH), 15) * 1e3
    flat = np.ones((2 * BATCH, WINDOW, SYMBOLS, FEATURES), np.float32)
    target = np.ones_like(flat)
    figures["memcpy_ms"] = cpu(lambda: np.copyto(target, flat), 15) * 1e3
    figures["sample_over_memcpy"] = figures["sample_cpu_ms"] / figures["memcpy_ms"]
    return figures


def part_trading() -> Figures:
    """The compact observation of the trading environment: 80 portfolios, 108 of 669 symbols."""
    core = TradingCore(
        random_market(0, DAYS, SYMBOLS, tuple(range(TRADABLE))), TradingConfig.model_validate({}), 80
    )
    rng = np.random.default_rng(0)
    observation = (
        Field("day", (), "int32"),
        Field("positions", (TRADABLE, 4), "float16"),
        Field("account", (5,)),
    )
    schema = Schema(
        observation,
        (Field("action", (TRADABLE, 2)), *STEP_FIELDS, Field("contribution", (TRADABLE,))),
        ("reward", "contribution"),
    )
    low, high = core.action_bounds
    state = {"left": 0}

    def steps(replay: Replay, count: int) -> None:
        """`count` steps of all portfolios, in one call per episode piece."""
        while count:
            if state["left"] == 0:
                core.reset(rng.integers(WINDOW, DAYS - core.episode_steps - 1, core.batch))
                state["left"] = core.episode_steps
            rows: list[dict[str, Array]] = []
            for _ in range(min(count, state["left"])):
                seen = vars(core.observe())
                action = (
                    low + (high - low) * rng.random((core.batch, *core.action_shape), np.float32)
                ).astype("f4")
                step = core.step(action)
                rows.append(
                    seen
                    | {
                        "action": action,
                        "reward": step.reward.astype("f4"),
                        "contribution": step.contribution,
                    }
                    | {"terminated": step.terminated, "truncated": np.zeros(core.batch, bool)}
                )
            replay.extend(
                {name: np.stack([row[name] for row in rows]) for name in rows[0]}, vars(core.observe())
            )
            state["left"] -= len(rows)
            count -= len(rows)

    steps(Replay(schema, 1_000, seed=0), 29)
    state["left"] = 0
    gc.collect()
    before = memory("VmRSS")
    replay = Replay(schema, CAPACITY, seed=0)
    while len(replay) < CAPACITY:
        steps(replay, 25)
    gc.collect()
    figures: Figures = {"ram_mb": (memory("VmRSS") - before) / 1e6, "record_bytes": replay.ring.layout.nbytes}
    return figures | persistence(replay, lambda: steps(replay, MORE // core.batch), lambda _: None)


def part_peer(name: str) -> Figures:
    """Another library's buffer with 200 full windows."""
    feed = WindowFeed(market_table())
    shown = [feed.windows(WINDOW + i // EPISODE * 400 + i % EPISODE, 2) for i in range(PEER_WINDOWS)]
    gc.collect()
    before = memory("RssAnon")
    peer = PEERS[name](PEER_WINDOWS, (WINDOW, SYMBOLS, FEATURES), TRADABLE * 2)

    def add_all() -> None:
        for i, (now, after) in enumerate(shown):
            peer.add(now, feed.rng.random(TRADABLE * 2, np.float32), 0.0, after, (i + 1) % EPISODE == 0)

    figures = {"add_cpu_ms": cpu(add_all) / PEER_WINDOWS * 1e3}
    figures["ram_mb_each"] = (memory("RssAnon") - before) / 1e6 / PEER_WINDOWS
    peer.sample(BATCH)
    figures["sample_cpu_ms"] = cpu(lambda: peer.sample(BATCH), 3) * 1e3
    gc.collect()
    with tempfile.TemporaryDirectory() as path:
        before = reset_peak()
        figures["save_cpu_s"] = cpu(lambda: peer.save(Path(path)))
        figures["save_peak_mb"] = (memory("VmHWM") - before) / 1e6
        figures["disk_mb_each"] = (
            sum(f.stat().st_size for f in Path(path).rglob("*") if f.is_file()) / 1e6 / PEER_WINDOWS
        )
        figures["load_cpu_s"] = cpu(lambda: peer.load(Path(path)))
    return figures


PARTS: dict[str, Callable[[], Figures]] = {"rows": part_rows, "trading": part_trading, "ant": part_ant}
PARTS |= {f"peer_{name}": partial(part_peer, name) for name in PEERS}


def run_part(name: str) -> Figures:
    """A part in a fresh process, so that its memory is its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--part", name],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    print(f"  measured {name}", file=sys.stderr, flush=True)
    return figures


def table(found: dict[str, Figures]) -> None:
    scale = CAPACITY / PEER_WINDOWS
    heads = ("RAM", "disk", "full save", "save peak", "load", "add", "sample 32")
    print(f"\nFull windows {WINDOW} x {SYMBOLS} x {FEATURES}, {CAPACITY:,} transitions; ~ is extrapolated")
    print(
        f"(others: save peak, add and sample as measured with {PEER_WINDOWS}; torchrl_memmap's memory is file pages)"
    )
    print(f"{'':16}" + "".join(f"{head:>12}" for head in heads))
    for name in PEERS:
        f = found[f"peer_{name}"]
        cells = (
            f"~{f['ram_mb_each'] * CAPACITY / 1e3:.0f} GB", f"~{f['disk_mb_each'] * CAPACITY / 1e3:.0f} GB",
            f"~{f['save_cpu_s'] * scale:.0f} s", f"{f['save_peak_mb']:.0f} MB",
            f"~{f['load_cpu_s'] * scale:.0f} s", f"{f['add_cpu_ms']:.2f} ms", f"{f['sample_cpu_ms']:.0f} ms",
        )  # fmt: skip
        print(f"{name:16}" + "".join(f"{cell:>12}" for cell in cells))
    for name in ("rows", "trading"):
        f = found[name]
        cells = (
            f"{f['ram_mb']:.0f} MB", f"{f['disk_mb']:.0f} MB", f"{f['save_cpu_s']:.2f} s",
            f"{f['save_peak_mb']:.1f} MB", f"{f['load_cpu_s']:.2f} s",
            f"{f['add_cpu_ms']:.2f} ms" if "add_cpu_ms" in f else "-",
            f"{f['sample_cpu_ms']:.0f} ms" if "sample_cpu_ms" in f else "-",
        )  # fmt: skip
        print(f"{'eigen2 ' + name:16}" + "".join(f"{cell:>12}" for cell in cells))
    for name in ("rows", "trading"):
        f = found[name]
        print(
            f"after {MORE:,} more, {name}: {f['more_written_mb']:.2f} MB written, {f['more_save_cpu_s']:.3f} s"
        )
    rows = found["rows"]
    print(
        f"sample of {BATCH}: {rows['sample_over_memcpy']:.2f} x the memcpy of the batch (window and next window)"
    )
    print(f"\nAnt-sized records{'add/s':>12}{'when full':>12}{'sample 1024':>14}")
    for name in ("ours", "cpprb", "sb3", "torchrl"):
        f = found["ant"]
        rates = (f"{f[f'{name}_{kind}_per_s'] / 1e6:>10.2f} M" for kind in ("add", "refill"))
        print(f"{name:17}{''.join(rates)}{f[name + '_sample_us']:>11.0f} us")


def summary(found: dict[str, Figures]) -> dict[str, float]:
    flat = {
        f"{part}_{key}": round(value, 4) for part, figures in found.items() for key, value in figures.items()
    }
    seed, rows, ant = found["peer_deque_gzip"], found["rows"], found["ant"]
    scale = CAPACITY / PEER_WINDOWS
    ratios = {
        "ratio_ram_seed_over_rows": seed["ram_mb_each"] * CAPACITY / rows["ram_mb"],
        "ratio_ram_seed_over_trading": seed["ram_mb_each"] * CAPACITY / found["trading"]["ram_mb"],
        "ratio_disk_seed_over_rows": seed["disk_mb_each"] * CAPACITY / rows["disk_mb"],
        "ratio_save_seed_over_rows": seed["save_cpu_s"] * scale / rows["save_cpu_s"],
        "ratio_load_seed_over_rows": seed["load_cpu_s"] * scale / rows["load_cpu_s"],
        "ratio_sample_over_memcpy": rows["sample_over_memcpy"],
    }
    for name in ("cpprb", "sb3", "torchrl"):
        ratios[f"ratio_ant_sample_{name}_over_ours"] = ant[f"{name}_sample_us"] / ant["ours_sample_us"]
    return flat | {name: round(value, 3) for name, value in ratios.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, help="measure one part only and print its figures")
    chosen = parser.parse_args().part
    torch.set_num_threads(1)
    if chosen:
        print(json.dumps(PARTS[chosen]()))
        return
    found = {name: run_part(name) for name in PARTS}
    table(found)
    print(json.dumps(summary(found)))


if __name__ == "__main__":
    main()
