"""Drawing from the replay: uniform, n-step, prioritised and sequences, each from its own random stream.

A draw is a transition number, so batches do not depend on where records lie or on how the data was cut into calls.
Records and next observations come with one gather into a reused buffer; fields are typed views of it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigen2 import seeds
from eigen2.errors import DataError
from eigen2.replay.batch import Batch, Sequences
from eigen2.replay.links import Links, Numbers
from eigen2.replay.ring import RecordRing
from eigen2.replay.schema import STREAM, Layout, Schema
from eigen2.replay.sum_tree import SumTree
from eigen2.replay.window_buffer import WindowBuffer
from eigen2.replay.windows import WindowStore

KEPT_OUTPUTS = 8
"""Batch shapes whose memory is kept for reuse; the one unused longest goes first."""
KINDS = ("uniform", "n_step", "prioritised", "sequences")


class Output:
    """Reused memory for `rows` records, with their typed views."""

    def __init__(self, schema: Schema, layout: Layout, shape: tuple[int, ...]) -> None:
        self.rows = int(np.prod(shape))
        self.words = np.zeros((self.rows, layout.nbytes // 8), np.int64)
        self.arrays = layout.views(self.words.view(np.uint8).reshape(*shape, layout.nbytes))
        self.windows = {f.name: np.empty((*shape, *f.shape), f.dtype) for f in schema.large}
        self._tensors = {
            name: torch.from_numpy(array) for name, array in (self.arrays | self.windows).items()
        }
        self._observation = [f.name for f in schema.observation]
        self._step = [f.name for f in schema.step if f.name != STREAM]
        self.discount = np.empty(shape[:1], np.float32)
        self.cached: tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]] | None = None
        self.buffers: dict[tuple[str, int], WindowBuffer] = {}

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + sum(window.nbytes for window in self.windows.values())

    def observation(self, at: Any) -> dict[str, Tensor]:
        return {name: self._tensors[name][at] for name in self._observation}

    def step(self, at: Any) -> dict[str, Tensor]:
        return {name: self._tensors[name][at] for name in self._step}


def sampling_streams(seed: int) -> dict[str, np.random.Generator]:
    """One for each kind of draw."""
    return {kind: seeds.generator(seed, f"replay.{kind}") for kind in KINDS}


class Sampler:
    """Draws and gathers; owns the random streams and the output buffers, reads the rest."""

    def __init__(
        self, schema: Schema, ring: RecordRing, links: Links, windows: Mapping[str, WindowStore], seed: int
    ) -> None:
        self._schema, self._ring, self._links, self._windows = schema, ring, links, windows
        self.streams = sampling_streams(seed)
        self._outputs: dict[tuple[int, ...], Output] = {}

    @property
    def nbytes(self) -> int:
        """Of the batches whose memory is reused."""
        return sum(output.nbytes for output in self._outputs.values())

    def drop_batches(self) -> None:
        """Forget that memory; batches that are in use keep theirs."""
        self._outputs.clear()

    def uniform(self, n: int, n_step: int, gamma: float) -> Batch:
        self._require(1)
        stream = self.streams["uniform" if n_step == 1 else "n_step"]
        return self.gather(self._draw(stream, n), n_step, gamma)

    def prioritised(self, n: int, n_step: int, gamma: float, tree: SumTree, beta: float) -> Batch:
        """Stratified draws proportional to the leaves; weights ``(size * p) ** -beta`` over their largest."""
        self._require(1)
        links = self._links
        mass = (np.arange(n) + self.streams["prioritised"].random(n)) * (tree.total / n)
        leaf = tree.find(mass)
        numbers = links.first + (leaf - links.first) % links.capacity
        weight = (len(links) * tree.values[leaf] / tree.total) ** -beta
        batch = self.gather(numbers, n_step, gamma)
        weights = torch.from_numpy((weight / weight.max()).astype(np.float32))
        return Batch(batch.observation, batch.next_observation, batch.step, batch.discount, numbers, weights)

    def sequences(self, n: int, horizon: int) -> Sequences:
        self._require(horizon)
        path = self._draw_paths(n, horizon)
        entries = path % self._links.capacity
        slots = np.concatenate([self._links.slots[entries, 0], self._links.slots[entries[-1:], 1]])
        out = self._output((horizon + 1, n))
        self._fill(out, slots)
        observation = out.observation(slice(None))
        for name in self._windows:
            observation[name] = self._fill_windows(out, name, out.arrays[name].T, 1).transpose(0, 1)
        return Sequences(observation, out.step(slice(0, horizon)), path)

    def gather(self, numbers: Numbers, n_step: int = 1, gamma: float = 1.0) -> Batch:
        """The batch of given live transitions ``[n]``."""
        links, out = self._links, self._output((len(numbers), 2))
        slots = links.slots.take(numbers % links.capacity, axis=0)
        if n_step == 1:
            self._fill(out, slots)
            np.multiply(~out.arrays["terminated"][:, 0], np.float32(gamma), out=out.discount)
        else:
            self._fill_n_step(out, slots, numbers, n_step, gamma)
        if out.cached is None:
            first, second = (slice(None), 0), (slice(None), 1)
            out.cached = (out.observation(first), out.observation(second), out.step(first))
        observation, following, step = map(dict, out.cached)
        for name in self._windows:
            windows = self._fill_windows(out, name, out.arrays[name], n_step)
            observation[name], following[name] = windows[:, 0], windows[:, 1]
        return Batch(observation, following, step, torch.from_numpy(out.discount), numbers)

    def _fill_n_step(
        self, out: Output, slots: npt.NDArray[np.int32], numbers: Numbers, n_step: int, gamma: float
    ) -> None:
        """``sum_i gamma^i x_i`` over the steps of the episode that exist, at most `n_step`, and the state after them."""
        links, fields = self._links, self._ring.fields
        path, reached = links.walk(numbers, n_step - 1)
        own = links.slots[path % links.capacity, 0]
        last = links.slots.take(path[-1] % links.capacity, axis=0)
        slots[:, 1] = last[:, 1]
        self._fill(out, slots)
        power = np.where(reached, gamma ** np.arange(n_step)[:, None], 0.0)
        for name in self._schema.summed:
            values = fields[name][own].astype(np.float64)
            scale = power.reshape(*power.shape, *[1] * (values.ndim - 2))
            # Steps that were not reached are left out, not multiplied by zero: they may be infinite.
            out.arrays[name][:, 0] = (np.where(scale > 0.0, values, 0.0) * scale).sum(axis=0)
        steps = reached.sum(axis=0)
        out.discount[:] = np.where(fields["terminated"][last[:, 0]], 0.0, gamma**steps)

    def _draw(self, stream: np.random.Generator, n: int) -> Numbers:
        """Live transitions ``[n]``, all alike."""
        return stream.integers(self._links.first, self._links.total, n)

    def _draw_paths(self, n: int, horizon: int) -> Numbers:
        """Transition numbers ``[horizon, n]``, drawn from all starts that have a whole horizon ahead of them."""
        links, stream = self._links, self.streams["sequences"]
        found: list[Numbers] = []
        missing = n
        for _ in range(4):
            path, reached = links.walk(self._draw(stream, missing), horizon - 1)
            found.append(path[:, reached[-1]])
            missing -= found[-1].shape[1]
            if missing == 0:
                return np.concatenate(found, axis=1)
        # Most starts are too close to an episode's end: list the good ones instead of guessing on.
        starts = links.can_follow(horizon - 1)
        if len(starts) == 0:
            raise DataError(
                f"No episode in the replay has {horizon} consecutive transitions; "
                "collect more steps first or use a shorter horizon."
            )
        found.append(links.walk(starts[stream.integers(0, len(starts), missing)], horizon - 1)[0])
        return np.concatenate(found, axis=1)

    def _fill(self, out: Output, slots: npt.NDArray[np.integer[Any]]) -> None:
        flat = slots.reshape(-1).astype(np.intp)
        self._ring.words.take(flat, axis=0, out=out.words, mode="clip")

    def _fill_windows(self, out: Output, name: str, references: npt.NDArray[np.int64], slide: int) -> Tensor:
        """Windows ``[paths, steps, *shape]`` of ``references [paths, steps]``."""
        buffer = out.buffers.get((name, slide))
        if buffer is None:
            buffer = out.buffers[name, slide] = WindowBuffer(self._windows[name], slide)
        return torch.from_numpy(buffer.fill(references))

    def _output(self, shape: tuple[int, ...]) -> Output:
        out = self._outputs.pop(shape, None) or Output(self._schema, self._ring.layout, shape)
        self._outputs[shape] = out
        if len(self._outputs) > KEPT_OUTPUTS:
            self._outputs.pop(next(iter(self._outputs)))
        return out

    def _require(self, transitions: int) -> None:
        if len(self._links) < transitions:
            raise DataError(
                f"The replay holds {len(self._links)} transitions; at least {transitions} are needed."
            )
