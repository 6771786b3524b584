"""What an algorithm must be. The harness knows nothing else about it.

    Algorithm    a name, a config section, and `open`: from a config to an Experiment
    Experiment   what one run stands on: its trainer, its data, how it is evaluated and exported
    Trainer      the learning itself: `step()` until `done`; a state that can be frozen and thawed exactly
    Evaluation   what was found: facts, series, and how to show them (`evaluation.result`)

An algorithm is registered under the entry-point group `eigen2.algorithms`; the entry point names an Algorithm. It
touches no file and no signal: the harness saves what `state_dict` returns and the replay's own snapshots.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from eigen2.errors import ConfigError
from eigen2.evaluation.panels import Panel
from eigen2.evaluation.result import Champion, Decision, Evaluation, HoldoutLedger, Question, WhatIf
from eigen2.section import Section

if TYPE_CHECKING:
    from torch import Tensor

    from eigen2.config import Config
    from eigen2.replay import Replay

__all__ = [
    "Algorithm",
    "AlgorithmConfig",
    "CHAMPION",
    "Calibration",
    "Champion",
    "Datasets",
    "Decision",
    "Evaluation",
    "Experiment",
    "HoldoutLedger",
    "Metrics",
    "Needs",
    "Panel",
    "Progress",
    "Question",
    "Services",
    "Trainer",
    "WalkForward",
    "WhatIf",
    "refuse_what_if",
]

CHAMPION = "champion.json"
"""What an export says about its champion: `algorithm`, the name of the one that can load it, and what that needs."""

Metrics = dict[str, float]
Progress = Callable[[str, int, int], None]
"""Called by a trainer as it works, with (phase, done, total). A call with done = 0 before a phase begins tells exactly
where its memory begins."""


def no_progress(phase: str, done: int, total: int) -> None:
    """For work that nobody watches."""


class AlgorithmConfig(Section):
    """The `alg` section of a config. Subclasses declare their settings, each with a default and a line of help."""

    kind: str
    """The algorithm's name; a Literal in every subclass."""


class Trainer(ABC):
    """One step is one generation, one iteration, one round: what can be saved between."""

    step_name: str = "step"
    """What people call a step: generation, iteration, round."""
    phases: tuple[str, ...] = ()
    """The parts of a step in their order, as reported to `Services.progress`."""
    headline: tuple[str, ...] = ()
    """Metrics worth a place on the console, in this order; one that no step has returned yet is not shown."""
    units: Mapping[str, str] = MappingProxyType({})
    """Metric -> its unit, for the console; numbers without one are left out."""
    panels: tuple[Panel, ...] = ()
    """Pictures of its logs for reports (`evaluation.panels`); metrics that no panel names get a curve each."""
    filling: tuple[str, ...] = ("replay",)
    """Owners that grow by design, as buffers and ledgers do; growth of any other is taken for a leak."""
    replay: Replay | None = None
    """Stored experience, saved beside the state and incrementally; None for algorithms that keep none."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps of the whole run."""

    @property
    @abstractmethod
    def done(self) -> bool: ...

    @property
    @abstractmethod
    def best_score(self) -> float:
        """Real evaluation of the best agent so far, -inf before the first; a change makes the next checkpoint `best`."""

    @abstractmethod
    def step(self) -> Metrics:
        """Advance once. The numbers are the same in every run of the same config; one that is not known is left out."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything but the replay, every source of randomness included: nested dicts and lists of tensors, arrays,
        numbers and strings. The values may be live; whoever keeps them copies them."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """After this, the next steps are those of the trainer the state was taken from, bit for bit."""

    def upgraded(self, state: dict[str, Any]) -> dict[str, Any]:
        """A state that an earlier version wrote, as this one writes it; `load_state_dict` takes both."""
        return state

    @abstractmethod
    def best_weights(self) -> dict[str, Tensor]:
        """The best agent, for people who open it elsewhere."""

    def use_replay(self, replay: Replay) -> None:
        """Continue with a restored replay."""
        self.replay = replay

    def take_records(self) -> dict[str, list[dict[str, Any]]]:
        """Further log records of the last step, by log (`lineage`). Records of `events` have a `kind` and a `message`,
        which people see too."""
        return {}

    def drop_caches(self) -> None:
        """Memory is nearly used up: let go of what can be made again, and evaluate less at a time from now on. What is
        computed stays the same, to the last bit. Called between steps and from inside `Services.progress`."""
        if self.replay is not None:
            self.replay.sampler.drop_batches()

    def owners(self) -> dict[str, int]:
        """Bytes held in RAM, by name: data, networks, optimiser, replay, caches."""
        if self.replay is None:
            return {}
        return {"replay": self.replay.ram_bytes, "batches": self.replay.sampler.nbytes}


class Experiment(ABC):
    """What one run stands on, in memory."""

    trainer: Trainer
    data_fingerprint: str = ""
    """Hash of the data a run is trained on; empty where there is none but what the config says."""
    rounded_data_fingerprint: str = ""
    """Of data that is computed from the config alone: a hash that does not depend on how a processor rounds. A run of which
    only `data_fingerprint` differs continues, and says so."""
    notes: tuple[str, ...] = ()
    """What people should know about the environment before a run begins."""

    def own_data(self) -> bytes | None:
        """The user's own data as one file, for the run to keep; None where the config describes all there is.

        `Services.data` hands it back on a resume, and then everything must be as it was, `data_fingerprint` and all.
        It may be called on another thread while the trainer steps. The same data gives the same bytes.
        """
        return None

    @abstractmethod
    def evaluate(self, split: str, what_if: WhatIf | None = None) -> Evaluation:
        """The trainer's champion as it stands; `split` is `validation` or `holdout` where data is split. The harness gives
        `what_if` only when the user asked for other circumstances; `refuse_what_if` says that there are none."""

    def walk_forward(self, config: Config, folds: int) -> WalkForward:
        """The run of `config` anew on shorter histories, each judged on the days after its own."""
        raise ConfigError("only a run on a market can be walked forward.")

    def load_dataset(self) -> dict[str, Any]:
        """Called once, when a run begins and never on a resume: give the trainer the stored experience its config
        names. Returns what run.json says about it."""
        return {}

    def champion(self) -> Champion:
        """The best agent as a policy of its own, which needs neither the trainer nor an environment any more."""
        raise ConfigError("this algorithm does not hand out its champion as a policy.")

    def export(self, directory: Path, states: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """Write policies as plain files with a model card into an empty directory; returns facts about them.

        `states` are the training states of the checkpoints that exist (init, best, latest, final). The default writes
        the best weights alone.
        """
        from safetensors.torch import save_file

        weights = self.trainer.best_weights()
        save_file(weights, directory / "best_agent.safetensors")
        count = sum(tensor.numel() for tensor in weights.values())
        card = f"# Best agent\n\n`best_agent.safetensors`: {len(weights)} tensors, {count:,} numbers.\n"
        (directory / "README.md").write_text(card, encoding="utf-8")
        return {"files": {"best_agent.safetensors": {"tensors": len(weights), "numbers": count}}}


def refuse_what_if(what_if: WhatIf | None) -> None:
    """For evaluations whose circumstances cannot be changed."""
    if what_if:
        raise ConfigError(
            "only an evaluation on a market can be made with other costs, days, data or benchmarks."
        )


class Datasets(Protocol):
    """Stored experience of other runs."""

    def locate(self, source: Path) -> Path:
        """The absolute path of a run's name, a run directory or RUN/checkpoints/*.json."""
        ...

    def config(self, source: Path) -> Config:
        """The config of the run that a located source belongs to."""
        ...

    def replay(self, source: Path) -> tuple[Replay, dict[str, Any]]:
        """The replay of a located source, every byte proven, and what it is."""
        ...


@dataclass(frozen=True)
class Services:
    """What the harness offers to an algorithm."""

    datasets: Datasets
    fingerprint: Callable[[Mapping[str, Any]], str]
    """One hash of nested dicts of tensors, arrays, numbers and strings: tells one champion from another."""
    progress: Progress = no_progress
    evaluations: Callable[[], list[dict[str, Any]]] = list
    """Facts of the run's earlier evaluations, oldest first."""
    metadata: Callable[[], dict[str, Any]] = dict
    """The run's name and what run.json says; empty while there is no run directory."""
    data: Path | None = None
    """The file in which the run keeps its `own_data`, proven; it is read instead of the one that the config names."""
    holdouts: HoldoutLedger | None = None
    """Where every use of held-out data is recorded before anything is shown of it; without one, none can be opened."""


@dataclass(frozen=True)
class WalkForward:
    configs: Sequence[Config]
    """Of all folds but the last, which is the run itself."""
    join: Callable[[Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], Sequence[str]], Evaluation]
    """From the facts and series of each fold's evaluation on its holdout, and the folds' names, to one evaluation."""


@dataclass(frozen=True)
class Needs:
    """What a run will need, in bytes, known from its config before anything is allocated. Zero: not known, or none.

    The harness adds what it knows itself: the interpreter, the replay, the frozen copy of a state that is being saved.
    """

    held: Mapping[str, int] = field(default_factory=dict)
    """Memory held to the end of a run, by component: market, environments, networks, optimisers."""
    peaks: Mapping[str, int] = field(default_factory=dict)
    """Memory needed beside that for a while (activations), by phase; phases follow each other, so the largest counts."""
    opening: int = 0
    """Memory at the worst moment of loading data, when nothing else is held yet."""
    on_device: tuple[str, ...] = ()
    """Components of `held` that lie on the training device, as activations do."""
    worker: int = 0
    """Memory of one worker process beside its interpreter; 0 for algorithms without workers."""

    steps: int = 0
    """Steps of the run."""
    state: int = 0
    """A training state as it is saved, when every optimiser has moments."""
    first_state: int = 0
    """The same before the first step."""
    largest: float = 0.5
    """Share of a state that its largest object takes: parity is as long as that."""
    best: int = 0
    """The part of `state` that changes only with the best score."""
    evaluations: int = 0
    """Moments of the run at which the best score can change."""
    best_is_newest: bool = False
    """Whether the best agent nearly always is one of the newest state."""
    best_agent: int = 0
    """The file of the best weights."""
    record: int = 0
    """One transition in the replay; 0 when there is none."""
    transitions: int = 0
    """Written to the replay in the whole run."""
    packed: float = 1.0
    """What compression leaves of a stored transition."""
    own_data: int = 0
    """The copy of the user's data that the run keeps."""
    log: int = 1_000
    """Lines in the logs, per step."""
    evaluation: int = 10_000
    """What the evaluation at the end stores."""

    knobs: tuple[str, ...] = ()
    """Numeric keys of the config that a smaller run can be made with, those that cost least in what is learned first."""


StepSeconds = Sequence[Mapping[str, float]]
"""Seconds of some steps by phase, as the trainer reported them."""


def _all_alike(measured: StepSeconds, steps: int) -> float:
    return steps * sum(sum(step.values()) for step in measured) / max(1, len(measured))


@dataclass(frozen=True)
class Calibration:
    """A short run by which a forecast is measured: it holds what the real one holds, and does it less often."""

    config: Config
    steps: int = 1
    seconds: Callable[[StepSeconds, int], float] = _all_alike
    """Seconds of the real run, given those of the short one and the number of steps."""


class Algorithm(ABC):
    name: ClassVar[str]
    config: ClassVar[type[AlgorithmConfig]]

    def presets(self) -> Mapping[str, Mapping[str, Any]]:
        """Settings by preset name. `on: {<env kind>: {...}}` inside a preset says how they differ by kind of
        environment, `also: {<section>: {...}}` what goes with them outside the algorithm, e.g. `checkpoint.every`."""
        return {self.name: {}}

    def accepts(self, env: Section) -> str | None:
        """Why this algorithm cannot learn in an environment, as a sentence for the user; None when it can."""
        return None

    def resolve(self, config: Config, services: Services) -> Config:
        """Called once, when a run begins: the config with everything filled in that only the outside knows."""
        return config

    def refuses(self, config: Config, days: Mapping[str, int]) -> list[str]:
        """Why this config could not be trained on data with so many days in each split, besides what the environment
        says; a sentence each. Cheap, for `data check`: nothing is opened."""
        return []

    def needs(self, config: Config, services: Services) -> Needs | None:
        """What a run of this config will need; cheap, and nothing is allocated. None: only a calibration can say."""
        return None

    def calibration(self, config: Config) -> Calibration | None:
        """How a forecast is measured; None where that would cost as much as the run."""
        return Calibration(config)

    def load(self, directory: Path) -> Champion:
        """The champion in a directory that `Experiment.export` wrote, with CHAMPION in it; no code of its is run."""
        raise ConfigError(
            f"champions of {self.name} are loaded from their run directory, not from {directory}."
        )

    @abstractmethod
    def open(self, config: Config, services: Services) -> AbstractContextManager[Experiment]:
        """Everything in memory, nothing on disk; worker processes and environments end with the context."""
