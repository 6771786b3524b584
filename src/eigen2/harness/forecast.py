"""What a run will need of memory, disk and network, before it starts.

An algorithm says what it will hold (`Needs`). The harness adds what it knows itself: the interpreter, the replay, the
copy of a state that is being saved, the checkpoints that are kept and those that are superseded. A calibration, or an
experiment that is open already, replaces what was computed by what was measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eigen2.algorithms.contract import Needs
from eigen2.config import Config
from eigen2.harness.disk_use import disk_use, replay_size, saved_at_once
from eigen2.replay.size import stored_bytes
from eigen2.store.disk import MARGIN_BYTES

if TYPE_CHECKING:
    from eigen2.algorithms.contract import Trainer

INTERPRETER = 400_000_000
"""Python, torch and what they import, before anything is opened."""
WORKER = 300_000_000
"""The same of a worker process, without the libraries that all processes share."""
AT_OPENING = ("market", "networks", "environments", "rollout")
"""Components that are in memory when an experiment has been opened; the others come with the first step."""
HEAP = 1.1
"""The allocator keeps some of what is freed: activations take this much more."""


@dataclass(frozen=True)
class Opened:
    """What is known once an experiment is open."""

    resident: int
    """Memory of this process now."""
    peak: int
    """The most it has had so far."""
    state: int
    """The training state as it stands."""
    own_data: int = 0
    libraries: int = 0
    """Of libraries that will be imported later."""
    largest: float = 0.5
    """Share of the state that its largest object takes."""


@dataclass(frozen=True)
class Measured:
    """What a calibration found."""

    opened: int
    """Memory when the experiment had been opened."""
    peak: int
    """The most memory, over a few steps with a state frozen beside them, and an evaluation."""
    first_state: int
    state: int
    replay_held: int
    """Memory of the replay after `transitions`."""
    transitions: int
    record: int
    packed: float
    steps: int
    log: int
    own_data: int
    evaluation: int
    seconds: float
    gpu: int = 0
    """The most memory of the training device."""
    largest: float = 0.5
    """Share of the state that its largest object takes."""


@dataclass(frozen=True)
class Part:
    """One component: memory, what it leaves on disk and what it sends, in bytes."""

    ram: int = 0
    disk: int = 0
    upload: int = 0
    gpu: int = 0

    def to_json(self) -> dict[str, int]:
        return {
            "ram_bytes": self.ram,
            "gpu_bytes": self.gpu,
            "disk_bytes": self.disk,
            "upload_bytes": self.upload,
        }


@dataclass(frozen=True)
class Forecast:
    components: Mapping[str, Part]
    room_bytes: int
    """Disk that must be free: what the run leaves, and what it needs on the way there."""
    seconds: float | None = None
    peak_so_far: int = 0
    measured: bool = False
    uploads: bool = False

    @property
    def ram_bytes(self) -> int:
        return max(self.peak_so_far, sum(part.ram for part in self.components.values()))

    @property
    def gpu_bytes(self) -> int:
        return sum(part.gpu for part in self.components.values())

    @property
    def disk_bytes(self) -> int:
        """What the run's directory holds at the end."""
        return sum(part.disk for part in self.components.values())

    @property
    def upload_bytes(self) -> int:
        """What is sent over the whole run; nothing without a cloud."""
        return sum(part.upload for part in self.components.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "ram_bytes": self.ram_bytes,
            "gpu_bytes": self.gpu_bytes,
            "disk_bytes": self.disk_bytes,
            "room_bytes": self.room_bytes,
            "upload_bytes": self.upload_bytes,
            "seconds": self.seconds,
            "calibrated": self.measured,
            "components": {name: part.to_json() for name, part in self.components.items()},
        }


def forecast(
    config: Config, needs: Needs | None, *, uploads: bool, on_gpu: bool = False, opened: Opened | None = None,
    measured: Measured | None = None,
) -> Forecast:  # fmt: skip
    """`uploads` says whether the run has a cloud, `on_gpu` whether the training device has memory of its own."""
    wants = needs or Needs()
    if measured is not None:
        wants = _corrected(wants, measured)
    elif opened is not None:
        wants = _refined(wants, opened)
    memory = _memory(config, wants, opened) if measured is None else _measured_memory(config, wants, measured)
    if on_gpu:
        memory = _moved(memory, wants, measured)
    disk = {name: (kept, sent if uploads else 0) for name, (kept, sent) in disk_use(config, wants).items()}
    empty = Part()
    names = dict.fromkeys((*memory, *disk))
    components = {
        name: Part(memory.get(name, empty).ram, *disk.get(name, (0, 0)), memory.get(name, empty).gpu)
        for name in names
    }
    small = disk.pop("logs")
    left = sum(kept for kept, _ in disk.values()) + max(small[0], MARGIN_BYTES)
    disk["logs"] = small
    # A save writes its objects before the old ones go; those that are queued for upload stay until they are sent.
    passing = (1 + (3 if uploads else 0)) * wants.state
    return Forecast(
        {name: part for name, part in components.items() if part != empty},
        room_bytes=left + passing + saved_at_once(config, wants),
        seconds=None if measured is None else measured.seconds,
        peak_so_far=0 if opened is None else opened.peak,
        measured=measured is not None,
        uploads=uploads,
    )


def trainer_needs(trainer: "Trainer") -> Needs:
    """What can be said of any trainer: its state as it stands, and a replay that fills up."""
    from eigen2.store.state import state_bytes

    state, replay = state_bytes(trainer.state_dict()), trainer.replay
    record = 0 if replay is None else stored_bytes(replay.schema)
    written = 0 if replay is None else replay.capacity
    return Needs(
        steps=trainer.steps, state=state, first_state=state, evaluations=trainer.steps, record=record,
        transitions=written,
    )  # fmt: skip


def _refined(needs: Needs, opened: Opened) -> Needs:
    """An open experiment knows its first state; what comes later is still computed."""
    more = max(0, needs.state - needs.first_state)
    return replace(
        needs,
        first_state=opened.state,
        state=opened.state + more,
        own_data=opened.own_data,
        largest=opened.largest,
    )


def _corrected(needs: Needs, measured: Measured) -> Needs:
    """The state at the end is the measured one, or the computed one where it grows after the first steps."""
    return replace(
        needs,
        first_state=measured.first_state,
        state=max(measured.state, needs.state),
        steps=measured.steps,
        record=measured.record,
        transitions=needs.transitions or measured.transitions * measured.steps,
        packed=measured.packed,
        own_data=measured.own_data,
        log=measured.log,
        evaluation=measured.evaluation,
        largest=measured.largest,
    )


# Memory


def _memory(config: Config, needs: Needs, opened: Opened | None) -> dict[str, Part]:
    held = dict(needs.held)
    activations = round(HEAP * max(needs.peaks.values(), default=0))
    replay = replay_size(config, needs)
    parts = {name: Part(ram=size) for name, size in held.items()}
    parts["activations"] = Part(ram=activations)
    parts["replay"] = Part(ram=0 if replay is None else replay.held(needs.transitions))
    # The copy that is being written stands beside the next step.
    parts["checkpoints"] = Part(ram=needs.state)
    parts["workers"] = Part(ram=_workers(config, needs))
    known = sum(size for name, size in held.items() if name in AT_OPENING)
    base = INTERPRETER if opened is None else max(0, opened.resident - known) + opened.libraries
    total = sum(part.ram for part in parts.values())
    # Loading data holds more than training where the networks are small.
    parts["market"] = Part(ram=held.get("market", 0) + max(0, needs.opening - total))
    return {"interpreter": Part(ram=base), **parts}


def _measured_memory(config: Config, needs: Needs, measured: Measured) -> dict[str, Part]:
    """The measured peak, and what still grows: the replay, and a state that was not full."""
    replay = replay_size(config, needs)
    full = 0 if replay is None else replay.held(needs.transitions)
    grown = max(0, needs.state - measured.state)
    held = {name: size for name, size in needs.held.items() if name != "trials"}
    known = sum(size for name, size in held.items() if name in AT_OPENING)
    later = sum(size for name, size in held.items() if name not in AT_OPENING)
    base = max(0, measured.opened - known)
    during = measured.peak - max(measured.opened, known) - later - measured.replay_held - measured.state
    parts = {"interpreter": Part(ram=base)}
    parts |= {name: Part(ram=size) for name, size in held.items()}
    parts["activations"] = Part(ram=max(0, during))
    parts["replay"] = Part(ram=max(full, measured.replay_held))
    parts["checkpoints"] = Part(ram=measured.state + grown)
    parts["workers"] = Part(ram=_workers(config, needs))
    # Whatever the shares, they sum up to what was measured and what still grows.
    wanted = measured.peak + max(0, full - measured.replay_held) + 2 * grown + parts["workers"].ram
    rest = wanted - sum(part.ram for part in parts.values())
    parts["interpreter"] = Part(ram=max(0, base + rest))
    # A few steps need not meet the worst one, which is computed: then what is computed counts.
    computed = _memory(config, needs, Opened(measured.opened, measured.peak, measured.state))
    return max(parts, computed, key=lambda found: sum(part.ram for part in found.values()))


def _workers(config: Config, needs: Needs) -> int:
    if config.cluster == "inline" or not needs.worker:
        return 0
    return config.workers * (WORKER + needs.worker)


def _moved(memory: dict[str, Part], needs: Needs, measured: Measured | None) -> dict[str, Part]:
    """What lies on the training device is not in the machine's memory."""
    moved = {*needs.on_device, "activations"}
    parts = {
        name: Part(gpu=part.ram) if name in moved and measured is None else part
        for name, part in memory.items()
    }
    if measured is not None:
        parts["activations"] = replace(parts["activations"], gpu=measured.gpu)
    return parts
