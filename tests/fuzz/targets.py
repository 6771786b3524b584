"""What is fuzzed: one class per format we read. `once` makes one input of a format, with true hashes, and reads it as the
commands do; whatever is not one of the designed failures comes out of it.
"""

import io
import json
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from forgery import sealed
from mutations import lied_about, mangled, mutated

from eigen2.errors import DamagedStateError, Eigen2Error, ResourceError
from eigen2.harness.commands import memory_facts, memory_text
from eigen2.harness.expected import load_state
from eigen2.harness.journal import last_record, read_log
from eigen2.harness.listing import list_runs
from eigen2.harness.run import Run
from eigen2.harness.tables import from_parquet
from eigen2.market.check import check_file, read_prices
from eigen2.market.config import MarketConfig
from eigen2.market.kept import read_kept
from eigen2.market.shape import market_shape
from eigen2.replay import Field, Replay, Schema
from eigen2.replay.codec import _CRC, _FRAME, _HEADER
from eigen2.replay.schema import STEP_FIELDS
from eigen2.replay.snapshot import manifest_info, verify_segments
from eigen2.replay.stored import checked, unfolded_bytes, widths
from eigen2.report.reading import RunReader
from eigen2.store.checkpoints import NONSENSE, Checkpoint
from eigen2.store.manifest import Manifest, from_bytes, to_bytes
from eigen2.store.memory import MemoryObjects
from eigen2.store.objects import Objects, Ref
from eigen2.store.retention import live_objects
from eigen2.store.state import blobs, fingerprint, from_blobs

DESIGNED = (Eigen2Error,)
LARGEST_RING = 1 << 30
"""Bytes of records that a replay of the fuzzer may be able to hold."""


@contextmanager
def loading() -> Iterator[None]:
    """As `Checkpoint.loading`, but memory must not run out: whoever relies on that has allocated before checking."""
    try:
        yield
    except MemoryError:
        raise
    except NONSENSE as error:
        raise DamagedStateError(str(error)) from error


class Target:
    """`accepted` counts the inputs that were taken for good; a fuzzer whose inputs are all refused at once finds nothing."""

    accepted = 0

    def once(self, random: Random) -> None:
        try:
            self.read(random)
        except DESIGNED:
            return
        self.accepted += 1

    def read(self, random: Random) -> None:
        raise NotImplementedError


class ManifestFile(Target):
    def __init__(self, run: Path) -> None:
        self.body = json.loads((run / "checkpoints" / "latest.json").read_bytes())["body"]

    def read(self, random: Random) -> None:
        body = mutated(self.body, random)
        try:
            content = sealed(body)
        except (ValueError, RecursionError):
            return
        if random.random() < 0.1:
            content = mangled(content, random)
        found = from_bytes(content, Path("checkpoints/latest.json"))
        assert from_bytes(to_bytes(found), Path("latest.json")).step == found.step
        live_objects([found])


def small_replays() -> list[Replay]:
    """Plain, prioritised, with windows that share rows, and with windows that are compressed."""
    rng = np.random.default_rng(0)
    plain = Schema((Field("obs", (3,)),), (Field("action", (1,)), *STEP_FIELDS))
    wide = Schema((Field("obs", (40, 500)), Field("now", (2,))), (Field("action", (1,)), *STEP_FIELDS))
    made = []
    for schema, alpha, sliding in (
        (plain, None, True),
        (plain, 0.5, True),
        (wide, None, True),
        (wide, None, False),
    ):
        replay = Replay(schema, 60, seed=1, alpha=alpha)
        table = rng.normal(size=(400, 500)).astype(np.float32)
        if not sliding:
            # Windows are compressed once they are known not to share rows.
            replay.windows["obs"].row_wise = False
        for call in range(4):
            steps: dict[str, Any] = {
                field.name: rng.normal(size=(20, 2, *field.shape)).astype(field.dtype)
                for field in schema.step
            }
            steps["terminated"] = rng.random((20, 2)) < 0.1
            steps["truncated"] = np.zeros((20, 2), bool)
            observed = {
                field.name: rng.normal(size=(21, 2, *field.shape)).astype(field.dtype)
                for field in schema.observation
            }
            if "now" in observed:
                at = call * 20
                observed["obs"] = np.stack([np.stack([table[at + t : at + t + 40]] * 2) for t in range(21)])
            ended = steps["terminated"][:-1]
            final = {
                name: array[1:-1][ended] if len(array) > 20 else array for name, array in observed.items()
            }
            final = {name: array[1:20][ended] for name, array in observed.items()}
            replay.extend(
                {**steps, **{name: array[:20] for name, array in observed.items()}},
                {name: array[20] for name, array in observed.items()},
                final if ended.any() else None,
            )
        made.append(replay)
    return made


class StoredReplays(Target):
    def __init__(self) -> None:
        self.disk = MemoryObjects()
        self.manifests = [
            json.loads(json.dumps(replay.snapshot().write(self.disk.put, self.disk.has)))
            for replay in small_replays()
        ]

    def use(self, manifest: Any, disk: MemoryObjects) -> None:
        """Read it in every way there is; what was taken for good must be good for sampling and saving."""

        def read(name: str) -> bytes:
            if name not in disk:
                raise DamagedStateError(f"{name} is missing")
            return disk.read(name)

        if not isinstance(manifest, dict):
            return
        with loading():
            assert unfolded_bytes(manifest) < 2**40
            stored, schema = checked(manifest)
            if stored.capacity * widths(schema)["records"] > LARGEST_RING:
                # Only what is written takes memory; what cannot even be asked for is a MemoryError, exit 4.
                raise ResourceError("a replay of this capacity does not fit into memory")
            manifest_info(manifest)
            verify_segments(manifest, read)
            replay = Replay.restore(manifest, read)
        if len(replay):
            replay.sample(4)
            replay.sample(4, n_step=2, gamma=0.9)
            if replay.tree is not None and replay.tree.total > 0:
                replay.sample_prioritised(4, beta=0.5)
        self.go_on(replay)
        again = replay.snapshot().write(MemoryObjects().put, lambda name: False)
        assert again["total"] == manifest["total"] + 3

    def go_on(self, replay: Replay) -> None:
        """Three more steps of the first stream."""
        fields = (*replay.schema.observation, *replay.schema.step)
        steps = {field.name: np.zeros((3, 1, *field.shape), field.dtype) for field in fields}
        after = {field.name: np.ones((1, *field.shape), field.dtype) for field in replay.schema.observation}
        replay.extend(steps, after)


class ReplayManifest(StoredReplays):
    def read(self, random: Random) -> None:
        self.use(mutated(random.choice(self.manifests), random), self.disk)


class ReplaySegment(StoredReplays):
    def read(self, random: Random) -> None:
        manifest = json.loads(json.dumps(random.choice(self.manifests)))
        disk = MemoryObjects(self.disk)
        part = random.choice(sorted(name for name, segments in manifest["parts"].items() if segments))
        segment = random.choice(manifest["parts"][part])
        content = self.changed(disk[segment[2]], random)
        segment[2] = disk.put([content])
        segment[3] = len(content)
        self.use(manifest, disk)

    def changed(self, content: bytes, random: Random) -> bytes:
        """Its header lies, its frames lie, or what is in it is nonsense that decodes."""
        kind = random.randrange(4)
        if kind == 0:
            return mangled(content, random)
        if kind == 1:
            header = lied_about(content[: _HEADER.size], _HEADER, random)
            return header + _CRC.pack(zlib.crc32(header)) + content[_HEADER.size + _CRC.size :]
        start = _HEADER.size + _CRC.size
        if len(content) <= start + _FRAME.size:
            return content
        if kind == 2:
            return content[:start] + lied_about(content[start:], _FRAME, random)
        rows, size, _ = _FRAME.unpack_from(content, start)
        stored = self.repacked(content[start + _FRAME.size : start + _FRAME.size + size], content, random)
        rest = content[start + _FRAME.size + size :]
        return content[:start] + _FRAME.pack(rows, len(stored), zlib.crc32(stored)) + stored + rest

    def repacked(self, stored: bytes, content: bytes, random: Random) -> bytes:
        """The same number of bytes, some of them others."""
        import zstandard

        packed = _HEADER.unpack_from(content)[2] == 1
        raw = bytearray(zstandard.ZstdDecompressor().decompress(stored) if packed else stored)
        for _ in range(random.randint(1, 4)):
            if raw:
                at = random.randrange(len(raw))
                raw[at] = random.choice((0, 1, 127, 128, 255, raw[at] ^ 1))
        return zstandard.ZstdCompressor().compress(bytes(raw)) if packed else bytes(raw)


class StateBlob(Target):
    """A training state of an open trainer, loaded into that trainer."""

    def __init__(self, trainer: Any, state: dict[str, Any]) -> None:
        self.trainer = trainer
        self.blobs = {name: b"".join(chunks) for name, chunks in blobs(state)}
        self.tree = json.loads(self.blobs["tree.json"])

    def read(self, random: Random) -> None:
        stored = dict(self.blobs)
        if random.random() < 0.5:
            try:
                stored["tree.json"] = json.dumps(mutated(self.tree, random)).encode()
            except (ValueError, RecursionError):
                return
        else:
            name = random.choice(sorted(stored))
            stored[name] = (
                self.changed(stored[name], random) if name != "tree.json" else mangled(stored[name], random)
            )
        with loading():
            state = from_blobs(list(stored), stored.__getitem__)
        manifest = Manifest(
            "latest", 1, "", {name: Ref("0" * 64, len(content)) for name, content in stored.items()}
        )
        fingerprint(state)
        load_state(self.trainer, Checkpoint(manifest, Objects(Path("objects"))), state)

    def changed(self, content: bytes, random: Random) -> bytes:
        if random.random() < 0.3:
            return mangled(content, random)
        length = int.from_bytes(content[:8], "little")
        text = json.dumps(mutated(json.loads(content[8 : 8 + length]), random)).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + length :]


class RunFile(Target):
    """One file of a run directory."""

    def __init__(self, run: Path, place: Path) -> None:
        self.run = Run(Path(shutil.copytree(run, place / "runs" / "stranger")))

    def write(self, name: str, content: bytes) -> None:
        (self.run.path / name).write_bytes(content)


class ConfigFile(RunFile):
    def __init__(self, run: Path, place: Path) -> None:
        super().__init__(run, place)
        self.text = self.run.config_file.read_bytes()
        self.values = yaml.safe_load(self.text)

    def read(self, random: Random) -> None:
        kind = random.randrange(4)
        if kind == 0:
            self.write("config.yaml", mangled(self.text, random))
        else:
            try:
                # JSON is YAML, and a hundred times faster to write.
                text = json.dumps(mutated(self.values, random)).encode()
            except RecursionError:
                return
            self.write("config.yaml", text)
        self.run.read_config()


class FactsFile(RunFile):
    def __init__(self, run: Path, place: Path) -> None:
        super().__init__(run, place)
        self.text = self.run.metadata_file.read_bytes()
        self.values = json.loads(self.text)

    def read(self, random: Random) -> None:
        try:
            text = (
                mangled(self.text, random)
                if random.random() < 0.3
                else json.dumps(mutated(self.values, random)).encode()
            )
        except RecursionError:
            return
        self.write("run.json", text)
        (found,) = list_runs(self.run.path.parent)
        json.dumps(found)
        self.run.metadata()


class LogFile(RunFile):
    names = ("metrics", "events", "memory", "evaluations", "lineage")

    def __init__(self, run: Path, place: Path) -> None:
        super().__init__(run, place)
        self.texts = {name: self.run.log(name).read_bytes() for name in self.names}

    def read(self, random: Random) -> None:
        name = random.choice(self.names)
        self.write(f"{name}.jsonl", self.changed(self.texts[name], random))
        self.run.pinned()
        json.dumps(list_runs(self.run.path.parent))
        RunReader(self.run.path).view()
        try:
            with suppress(ValueError):  # which the list of runs takes for damage
                last_record(self.run.log(name))
            read_log(self.run.log(name))
            if name == "memory":
                json.dumps(memory_facts(str(self.run.path), self.run.path.parent))
                memory_text(str(self.run.path), self.run.path.parent)
        finally:
            self.write(f"{name}.jsonl", self.texts[name])

    def changed(self, text: bytes, random: Random) -> bytes:
        lines = text.splitlines(keepends=True)
        if not lines or random.random() < 0.3:
            return mangled(text, random)
        number = random.randrange(len(lines))
        try:
            lines[number] = json.dumps(mutated(json.loads(lines[number]), random)).encode() + b"\n"
        except RecursionError:
            return text
        return b"".join(lines)


CSV = (
    "date,AAA,BBB\n" + "".join(f"2020-{month:02d}-{day:02d},{10 + day},{20 + month}\n" for month in range(1, 4) for day in range(1, 28)),
    "date,symbol,open,high,low,close,volume\n"
    + "".join(f"2020-01-{day:02d},{name},10,11,9,10.5,100\n" for day in range(1, 28) for name in ("AAA", "BBB")),
    "Date;AAA;BBB\n" + "".join(f"{day:02d}.01.2020;1,5;2,5\n" for day in range(1, 28)),
)  # fmt: skip
CELLS = (
    "", "nan", "inf", "-1", "0", "1e400", "1e-400", "abc", "2020-13-40", "01/02/2020", "9" * 400, "\ufeff", '"', "\0", "1,5",
    "2262-04-12", "0001-01-01", "99999-01-01", "-5", "1_0", "0x10", "١٢", "$1.5", "(5)", "5%",
)  # fmt: skip


class PriceText(Target):
    def __init__(self, place: Path) -> None:
        self.path = place / "prices.csv"

    def read(self, random: Random) -> None:
        text = random.choice(CSV)
        if random.random() < 0.5:
            content = mangled(text.encode(), random)
        else:
            rows = [line.split(",") for line in text.splitlines()]
            for _ in range(random.randint(1, 4)):
                row = random.choice(rows)
                row[random.randrange(len(row))] = random.choice(CELLS)
            content = "\n".join(",".join(row) for row in rows).encode()
        self.path.write_bytes(content)
        market_shape(MarketConfig(data=str(self.path)))
        check_file(self.path, MarketConfig())
        read_prices(self.path)


class PriceTable(Target):
    """Parquet: of prices, of what a run keeps of them, and of series."""

    def __init__(self, place: Path) -> None:
        self.path = place / "prices.parquet"
        days = np.arange("2020-01-01", "2020-03-01", dtype="datetime64[D]")
        self.wide = {
            "date": pa.array(days),
            "AAA": pa.array(np.ones(len(days))),
            "BBB": pa.array(np.ones(len(days))),
        }
        self.long = {
            "date": pa.array(np.tile(days, 2)), "symbol": pa.array(["AAA"] * len(days) + ["BBB"] * len(days)),
            "close": pa.array(np.ones(2 * len(days))),
        }  # fmt: skip

    def read(self, random: Random) -> None:
        columns = dict(random.choice((self.wide, self.long)))
        for _ in range(random.randint(0, 3)):
            name = random.choice(sorted(columns))
            columns[name] = self.odd_column(len(columns[name]), random)
            if random.random() < 0.3:
                columns[random.choice(("date", "close", "AAA", "", "('Close', 'X')", "symbol", "open"))] = (
                    columns.pop(name)
                )
        try:
            table = pa.table(columns)
            notes = {
                "eigen2.prices": random.choice(("1", "1", "2", "é")),
                "eigen2.warnings": random.choice(("[]", "[]", "{", "[1]", '[{"a":1}]')),
            }
            target = io.BytesIO()
            pq.write_table(table.replace_schema_metadata(notes), target)
        except (pa.ArrowException, ValueError, UnicodeError):
            return
        content = target.getvalue()
        if random.random() < 0.4:
            content = mangled(content, random)
        self.path.write_bytes(content)
        self.each(
            lambda: market_shape(MarketConfig(data=str(self.path))),
            lambda: check_file(self.path, MarketConfig()),
            lambda: read_kept(self.path, self.path),
            lambda: series(content),
        )
        read_prices(self.path)

    def each(self, *reads: Callable[[], Any]) -> None:
        for read in reads:
            try:
                read()
            except DESIGNED:
                continue

    def odd_column(self, rows: int, random: Random) -> Any:
        kinds: tuple[Callable[[], Any], ...] = (
            lambda: pa.array([None] * rows, pa.float64()),
            lambda: pa.array([float("inf")] * rows),
            lambda: pa.array(["x"] * rows),
            lambda: pa.array(["1.5"] * rows),
            lambda: pa.array(["y" * 2000] * rows),
            lambda: pa.array([b"\xff\xfe"] * rows),
            lambda: pa.array([True] * rows),
            lambda: pa.array([[1.0]] * rows),
            lambda: pa.array([2**62] * rows),
            lambda: pa.array([2**31 - 1] * rows, pa.int32()).cast(pa.date32()),
            lambda: pa.array([-(2**60)] * rows).cast(pa.timestamp("s")),
            lambda: pa.array([0] * rows).cast(pa.timestamp("us", "Asia/Tokyo")),
            lambda: pa.array([{"a": 1}] * rows),
            lambda: pa.nulls(rows),
            lambda: pa.array([1] * rows, pa.decimal128(20, 2)),
            lambda: pa.array([1] * rows, pa.time32("s")),
            lambda: pa.array(np.ones(max(1, rows - 1))),
        )
        return random.choice(kinds)()


def series(content: bytes) -> None:
    try:
        from_parquet(content)
    except (ValueError, OSError) as error:
        raise DamagedStateError(str(error)) from error
