"""The replay: transitions of many parallel streams, every observation stored once.

A stream is one environment. The next observation of a step is the observation of the stream's next record; only where
an episode ends is one more record written, with the observation that ended it. The newest `capacity` transitions are
live; older ones leave in order. Not thread-safe, except that a `Snapshot` may be written by another thread.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from eigen2.errors import ConfigError, DataError
from eigen2.replay.batch import Batch, Sequences
from eigen2.replay.chunk import Array, Chunk, checked_chunk
from eigen2.replay.links import Links
from eigen2.replay.ring import RecordRing
from eigen2.replay.sampling import Sampler
from eigen2.replay.schema import STREAM, Layout, Schema
from eigen2.replay.segments import frozen
from eigen2.replay.snapshot import FORMAT, Loader, Read, Snapshot, generator_state, set_generator_state
from eigen2.replay.sum_tree import SumTree
from eigen2.replay.windows import WindowStore

if TYPE_CHECKING:
    from torchrl.data import TensorDictReplayBuffer  # type: ignore[import-untyped]


class Replay:
    def __init__(
        self, schema: Schema, capacity: int, seed: int, *, alpha: float | None = None, compress: bool = True
    ) -> None:
        """`alpha` switches prioritised sampling on: a transition's share is its priority to the power alpha."""
        if capacity < 1:
            raise ConfigError(f"replay.capacity must be at least 1, got {capacity}.")
        self.schema, self.capacity, self.seed, self.alpha, self.compress = (
            schema,
            capacity,
            seed,
            alpha,
            compress,
        )
        self.ring = RecordRing(Layout(schema), capacity)
        self.links = Links(capacity)
        self.windows = {field.name: WindowStore(field) for field in schema.large}
        self.sampler = Sampler(schema, self.ring, self.links, self.windows, seed)
        self.tree = None if alpha is None else SumTree(capacity)
        self.max_priority = 1.0
        self.newest = np.full(1, -1, np.int64)
        """Newest transition of each stream whose episode goes on, else -1."""

    def __len__(self) -> int:
        return len(self.links)

    def extend(
        self,
        steps: Mapping[str, Any],
        after: Mapping[str, Any],
        final: Mapping[str, Any] | None = None,
        streams: Sequence[int] | npt.NDArray[np.integer[Any]] | None = None,
    ) -> None:
        """Append consecutive steps of several streams.

        `steps` has every field as ``[time, stream, ...]``; `after` has the observation fields ``[stream, ...]`` that
        follow the last row (whether or not an episode ended there); `final` has, for each episode that ended before
        the last row, the observation it ended with, ``[episode, ...]`` in time-major order. `streams` names the
        columns (default 0, 1, ...). A stream goes on in a later call if its first observation equals the `after` of
        its last call; otherwise the episode is taken as cut there.
        """
        chunk = checked_chunk(self.schema, steps, after, final, streams)
        width = len(chunk.streams)
        if width > self.capacity:
            raise ConfigError(
                f"replay.capacity {self.capacity} is smaller than the {width} parallel environments."
            )
        self._make_streams(int(chunk.streams.max()) + 1)
        used = 0
        for start, stop in chunk.pieces(max(1, self.capacity // width)):
            ended = chunk.ended[stop - 1]
            if stop == len(chunk.ended):
                last = {name: array[ended] for name, array in chunk.after.items()}
            elif ended.any():
                last = {name: array[used : used + ended.sum()] for name, array in chunk.final.items()}
                used += int(ended.sum())
            else:
                last = {}
            self._write(chunk, start, stop, last)
        self._write_pending(chunk)

    def extend_transitions(
        self,
        steps: Mapping[str, Any],
        next_observation: Mapping[str, Any],
        streams: Sequence[int] | npt.NDArray[np.integer[Any]] | None = None,
    ) -> None:
        """`extend` for callers that hold every next observation ``[time, stream, ...]``."""
        ended = np.asarray(steps["terminated"])[:-1] | np.asarray(steps["truncated"])[:-1]
        after = {name: array[-1] for name, array in next_observation.items()}
        final = {name: np.asarray(array)[:-1][ended] for name, array in next_observation.items()}
        self.extend(steps, after, final if ended.any() else None, streams)

    def sample(self, n: int, *, n_step: int = 1, gamma: float = 1.0) -> Batch:
        """`n` transitions, uniform with replacement."""
        return self.sampler.uniform(n, n_step, gamma)

    def sample_prioritised(self, n: int, *, beta: float, n_step: int = 1, gamma: float = 1.0) -> Batch:
        """`n` transitions in proportion to priority, with importance weights to the power `beta`."""
        return self.sampler.prioritised(n, n_step, gamma, self._priorities(), beta)

    def sample_sequences(self, n: int, horizon: int) -> Sequences:
        """`n` runs of `horizon` consecutive transitions that never cross an episode's end."""
        return self.sampler.sequences(n, horizon)

    def transitions(self, index: npt.NDArray[np.int64], *, n_step: int = 1, gamma: float = 1.0) -> Batch:
        """Given live transitions, by their numbers (`first` .. `first + len - 1`)."""
        if len(index) and (index.min() < self.links.first or index.max() >= self.links.total):
            raise DataError(
                f"Transitions {self.links.first}..{self.links.total - 1} are live, asked for {index}."
            )
        return self.sampler.gather(index, n_step, gamma)

    def update_priorities(self, index: npt.NDArray[np.int64], priority: npt.ArrayLike) -> None:
        """New priorities (positive, e.g. absolute TD errors) of sampled transitions; those that left are ignored."""
        tree = self._priorities()
        values = np.asarray(priority, np.float64)
        if not np.isfinite(values).all() or (values <= 0.0).any():
            raise DataError("Priorities must be finite and positive; add a small constant to the TD error.")
        live = index >= self.links.first
        tree.set(index[live] % self.capacity, values[live] ** (self.alpha or 0.0))
        self.max_priority = max(self.max_priority, float(values.max(initial=0.0)))

    def snapshot(self) -> Snapshot:
        """The replay as it is now; write its blobs, on any thread, while this one goes on."""
        head = {
            "format": FORMAT,
            "schema": self.schema.to_json(),
            "capacity": self.capacity,
            "seed": self.seed,
            "alpha": self.alpha,
            "compress": self.compress,
            "first": self.links.first,
            "total": self.links.total,
            "floor": self.ring.floor,
            "tail": self.ring.tail,
            "segment_records": self.ring.segment_records,
            "streams": len(self.newest),
            "max_priority": self.max_priority,
            "ram_bytes": self.ram_bytes,
            "random": {kind: generator_state(stream) for kind, stream in self.sampler.streams.items()},
            "windows": {name: store.state() for name, store in self.windows.items()},
        }
        parts = self.ring.parts()
        if self.tree is not None:
            parts["priorities"] = [frozen(self.tree.values[: self.links.total].view(np.uint8).reshape(-1, 8))]
        for store in self.windows.values():
            parts |= store.parts()
        return Snapshot(head, parts, self.schema.digest, self.compress)

    @classmethod
    def restore(cls, manifest: Mapping[str, Any], read: Read) -> Self:
        """The replay of a manifest; `read` returns a blob's bytes by name. The next samples are the same, bit for bit."""
        loader = Loader(manifest, read)
        replay = cls(
            loader.schema,
            manifest["capacity"],
            manifest["seed"],
            alpha=manifest["alpha"],
            compress=manifest["compress"],
        )
        replay._make_streams(manifest["streams"])
        replay.ring.load(loader)
        replay.newest[:] = replay.links.rebuild(
            replay.ring, manifest["first"], manifest["total"], manifest["streams"]
        )
        for name, store in replay.windows.items():
            store.load(loader, manifest["windows"][name])
            store.release(replay.ring.floor)
        if replay.tree is not None:
            leaves = np.zeros(replay.capacity)
            content = loader.content(loader.segments("priorities")[0]).view(np.float64)[:, 0]
            leaves[: len(content)] = content
            replay.tree.load(leaves)
            replay.max_priority = manifest["max_priority"]
        for kind, state in manifest["random"].items():
            set_generator_state(replay.sampler.streams[kind], state)
        return replay

    def to_torchrl(self, batch_size: int, **options: Any) -> "TensorDictReplayBuffer":
        """A TorchRL buffer that samples this store; needs the package torchrl."""
        # Imported here: TorchRL is optional and slow to import.
        from eigen2.replay.torchrl import torchrl_buffer

        return torchrl_buffer(self, batch_size, **options)

    @property
    def ram_bytes(self) -> int:
        """Memory held by contents and tables; reused output buffers are not counted."""
        windows = sum(store.used_bytes for store in self.windows.values())
        tree = 0 if self.tree is None else self.tree.nbytes
        return self.ring.used_bytes + self.links.used_bytes + windows + tree

    def info(self) -> dict[str, int]:
        return {
            "transitions": len(self),
            "capacity": self.capacity,
            "ram_bytes": self.ram_bytes,
            "naive_bytes": len(self) * self.schema.naive_bytes,
        }

    def _priorities(self) -> SumTree:
        if self.tree is None:
            raise ConfigError("This replay keeps no priorities; construct it with alpha.")
        return self.tree

    def _make_streams(self, count: int) -> None:
        if count > len(self.newest):
            grown = np.full(max(count, 2 * len(self.newest)), -1, np.int64)
            grown[: len(self.newest)] = self.newest
            self.newest = grown

    def _write(self, chunk: Chunk, start: int, stop: int, last: Mapping[str, Array]) -> None:
        """Rows ``[start, stop)``: no episode ends in them except at the last row, with the observations `last`."""
        streams, width = chunk.streams, len(chunk.streams)
        count = (stop - start) * width
        self._make_room(count, int(chunk.ended[stop - 1].sum()) + width)
        rows = {
            name: array[start:stop].reshape(count, *array.shape[2:]) for name, array in chunk.steps.items()
        }
        rows = self._by_reference(rows, np.tile(streams, stop - start))
        rows[STREAM] = np.tile(streams, stop - start)
        if start == 0:
            self._cut_where_not_continued(rows, streams)
        slots = self._pack(rows, count)
        numbers = self.links.append(slots, width)
        before = self.newest[streams]
        going_on = before >= self.links.first
        self.links.connect(before[going_on], slots[:width][going_on], numbers[:width][going_on])
        if self.tree is not None:
            self.tree.set(numbers % self.capacity, self.max_priority ** (self.alpha or 0.0))
        newest, ended = numbers[-width:], chunk.ended[stop - 1]
        self.links.connect(newest, self.ring.slots + streams)
        self.newest[streams] = np.where(ended, -1, newest)
        if ended.any():
            ends = self._by_reference(dict(last), streams[ended])
            self.links.connect(newest[ended], self._pack_ends(ends, streams[ended]))

    def _cut_where_not_continued(self, rows: Mapping[str, Array], streams: npt.NDArray[np.int64]) -> None:
        """Give streams whose first observation is not the one announced an end record with the announced one."""
        ring = self.ring
        waiting = np.flatnonzero(self.newest[streams] >= self.links.first)
        if len(waiting) == 0:
            return
        pending = ring.buffer[ring.slots + streams[waiting]]
        fresh = np.zeros_like(pending)
        views = ring.layout.views(fresh)
        for field in self.schema.observation:
            views[field.name][:] = rows[field.name][waiting]
        size = ring.layout.observation_bytes
        broken = (pending[:, :size] != fresh[:, :size]).any(axis=1)
        if broken.any():
            cut = streams[waiting[broken]]
            views = ring.layout.views(pending[broken])
            slots = self._pack_ends({f.name: views[f.name] for f in self.schema.observation}, cut)
            self.links.connect(self.newest[cut], slots)
            self.newest[cut] = -1

    def _write_pending(self, chunk: Chunk) -> None:
        open_ = ~chunk.ended[-1]
        streams = chunk.streams[open_]
        after = {name: array[open_] for name, array in chunk.after.items()}
        for name, array in self._by_reference(after, streams).items():
            self.ring.fields[name][self.ring.slots + streams] = array

    def _by_reference(self, rows: dict[str, Array], streams: npt.NDArray[np.int64]) -> dict[str, Array]:
        """Hand large fields to their window stores and put references in their place."""
        for name, store in self.windows.items():
            kept = [store.put(int(s), w, self.ring.tail) for s, w in zip(streams, rows[name], strict=True)]
            rows[name] = np.array(kept, np.int64)
        return rows

    def _pack(self, rows: Mapping[str, Array], count: int) -> npt.NDArray[np.int64]:
        """Write rows ``[count, ...]`` as the next records; returns their slots."""
        ring = self.ring
        slots = ring.reserve(count)
        at = int(slots[0])
        whole = min(count, ring.slots - at)
        for name, array in rows.items():
            ring.fields[name][at : at + whole] = array[:whole]
            if whole < count:
                ring.fields[name][: count - whole] = array[whole:]
        ring.commit(count)
        for name, store in self.windows.items():
            store.touch(rows[name], ring.tail)
        return slots

    def _pack_ends(self, rows: dict[str, Array], streams: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Write observation-only records that end an episode of each stream; returns their slots."""
        slots = self.ring.reserve(len(streams))
        self.ring.buffer[slots, self.ring.layout.observation_bytes :] = 0
        return self._pack(rows | {STREAM: ~streams}, len(streams))

    def _make_room(self, transitions: int, ends: int) -> None:
        links, ring = self.links, self.ring
        links.make_room(transitions)
        self.newest[self.newest < links.first] = -1
        ring.release(self._head())
        for store in self.windows.values():
            store.release(ring.floor)
        if not ring.fits(transitions + ends, len(self.newest)):
            first, total = links.first, links.total
            entries = np.arange(first, total) % links.capacity
            slots = links.slots[entries].astype(np.int64)
            pending = slots - ring.slots
            records = ring.record_of(slots)
            ring.grow(transitions + ends, len(self.newest))
            links.slots[entries] = np.where(pending >= 0, ring.slots + pending, records % ring.slots)

    def _head(self) -> int:
        """Number of the first record still needed."""
        if len(self.links) == 0:
            return self.ring.tail
        slot = self.links.slots[[self.links.first % self.capacity], 0]
        return int(self.ring.record_of(slot)[0])
