"""What every evaluation comes to, whatever was evaluated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from eigen2.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from rich.console import RenderableType

    from eigen2.evaluation.panels import Panel


@dataclass(frozen=True)
class Question:
    """What a champion is asked to decide; the newest day and the champion's own holdings where nothing is said."""

    data: Path | None = None
    """A newer file of the data the champion was trained on."""
    holdings: Path | None = None
    """What is really held: symbol, shares."""
    date: str | None = None
    """The last day whose data may be used."""
    capital: float | None = None
    """Money that the champion's portfolio stands for."""


@dataclass(frozen=True)
class WhatIf:
    """Circumstances of an evaluation that are not those of training; nothing said is as it was."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Other values of keys of `env`."""
    data: Path | None = None
    """A newer file of the data."""
    first: str | None = None
    last: str | None = None
    """Dates between which is evaluated, inside the split."""
    benchmark: Path | None = None
    """Portfolio weights to be compared with."""

    def __bool__(self) -> bool:
        return self != WhatIf()


@dataclass(frozen=True)
class Decision:
    """What a champion does next."""

    facts: dict[str, Any]
    """JSON."""
    shown: RenderableType
    """The facts for a person at a terminal."""
    rows: list[dict[str, Any]]
    """What there is to do, one row each, all with the same keys."""


@dataclass(frozen=True)
class Footage:
    frames: Iterator[npt.NDArray[np.uint8]]
    """Pictures [height, width, 3], one after the other."""
    per_second: float


class Champion(ABC):
    """A trained policy by itself: of a run, or of the files that `export` wrote."""

    @abstractmethod
    def act(self, observation: Any) -> npt.NDArray[Any]:
        """The action for one observation, or for a batch of them, as the environment gives and takes them: in its own
        bounds."""

    def decide(self, question: Question) -> Decision:
        """What to do next with what is held, given data that may be newer than what was trained on."""
        raise ConfigError("only a champion of a market decides about days; this one acts in an environment.")

    @property
    def can_be_filmed(self) -> bool:
        return False

    def film(self, seconds: float, width: int, height: int, seed: int = 0) -> Footage:
        """What it does, picture by picture."""
        raise ConfigError(
            "only a policy of a control task can be filmed; this one trades: `eigen2 report` shows what it did."
        )


@dataclass(frozen=True)
class Evaluation:
    """Stored with the run, so that a report never computes anything again."""

    facts: dict[str, Any]
    """JSON: numbers, strings, lists, dicts and None; no NaN, no infinity."""
    shown: RenderableType
    """The facts for a person at a terminal."""
    series: Mapping[str, Mapping[str, npt.NDArray[np.generic]]] = field(default_factory=dict)
    """Tables by name, each a dict of columns of one length."""
    panels: tuple[Panel, ...] = ()
    """What a report draws of the series."""
    tables: Mapping[str, Mapping[str, npt.NDArray[np.generic]]] = field(default_factory=dict)
    """Tables that people open; `series` are written for them where there are none."""


class HoldoutLedger(Protocol):
    """Where uses of held-out data are written down, whoever makes them: it outlives every run."""

    @property
    def place(self) -> str:
        """Where it is, for people."""
        ...

    def record(self, use: Mapping[str, Any], holdout: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
        """Write down, durably, that the data which `holdout` describes (`id` names it) is about to be shown.

        Returns all lines on record, oldest first and this use last, and how many could not be read. A line has a
        `kind`: `holdout` as it was described, or `use` with the name of the use, its `holdout`, and what it was given.
        """
        ...
