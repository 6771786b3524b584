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
from eigen2.replay.chunk import checked_chunk
from eigen2.replay.links import Links
from eigen2.replay.ring import RecordRing
from eigen2.replay.sampling import Sampler, sampling_streams
from eigen2.replay.schema import Layout, Schema
from eigen2.replay.segments import frozen
from eigen2.replay.snapshot import Loader, Read, Snapshot, generator_state, set_generator_state
from eigen2.replay.stored import FORMAT, damaged
from eigen2.replay.sum_tree import SumTree
from eigen2.replay.windows import WindowStore
from eigen2.replay.writer import Writer

if TYPE_CHECKING:
    from torchrl.data import TensorDictReplayBuffer


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
        self.writer = Writer(schema, self.ring, self.links, self.windows)
        self.sampler = Sampler(schema, self.ring, self.links, self.windows, seed)
        self.tree = None if alpha is None else SumTree(capacity)
        self.max_priority = 1.0

    def __len__(self) -> int:
        return len(self.links)

    def reseed(self, seed: int) -> None:
        """Draw from now on as a new replay with this seed would."""
        self.seed, self.sampler.streams = seed, sampling_streams(seed)

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
        before = self.links.total
        self.writer.write(chunk)
        if self.tree is not None:
            added = np.arange(max(before, self.links.first), self.links.total)
            self.tree.set(added % self.capacity, self.max_priority ** (self.alpha or 0.0))

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
        """The replay as it is now; write it, on any thread, while this one continues."""
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
            "streams": len(self.writer.newest),
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
        """The replay of a manifest; `read` returns stored bytes by name. The next samples are the same, bit for bit."""
        loader = Loader(manifest, read)
        replay = cls(
            loader.schema,
            manifest["capacity"],
            manifest["seed"],
            alpha=manifest["alpha"],
            compress=manifest["compress"],
        )
        replay.writer.make_streams(manifest["streams"])
        replay.ring.load(loader)
        replay.writer.newest[:] = replay.links.rebuild(
            replay.ring, manifest["first"], manifest["total"], manifest["streams"]
        )
        for name, store in replay.windows.items():
            store.load(loader, manifest["windows"][name])
            store.release(replay.ring.floor)
            live = replay.links.slots[np.arange(replay.links.first, replay.links.total) % replay.capacity]
            store.check(replay.ring.fields[name][np.unique(live)])
        if replay.tree is not None:
            leaves = np.zeros(replay.capacity)
            content = loader.content(loader.segments("priorities")[0]).view(np.float64)[:, 0]
            if not (np.isfinite(content).all() and (content >= 0.0).all()):
                raise damaged("a priority is negative or not finite")
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
