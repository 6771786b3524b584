"""The harness as an algorithm sees it: datasets, progress, evaluations, the ledger of holdout uses."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eigen2.algorithms.contract import Progress, Services, no_progress
from eigen2.config import Config
from eigen2.harness.datasets import RunDatasets
from eigen2.harness.run import Run
from eigen2.store.holdout_ledger import user_ledger


class Host:
    """The harness as an algorithm sees it; the run appears when its directory does, `data` is the file it keeps."""

    def __init__(
        self,
        config: Config,
        run: Run | None = None,
        progress: Progress = no_progress,
        data: Path | None = None,
        typed: frozenset[str] = frozenset(),
    ) -> None:
        self.run = run
        self.services = Services(
            datasets=RunDatasets(config.run.root, typed if run is None else run.typed),
            fingerprint=_fingerprint,
            progress=progress,
            evaluations=lambda: [] if self.run is None else self.run.evaluations(),
            metadata=lambda: {} if self.run is None else {"name": self.run.name, **self.run.metadata()},
            data=data,
            holdouts=_UsesByRun(self),
        )


class _UsesByRun:
    """The user's ledger of holdout uses; each use is signed with the run that makes it."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def place(self) -> str:
        return user_ledger().place

    def record(self, use: Mapping[str, Any], holdout: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
        run = self._host.run
        return user_ledger().record({**use, "run": None if run is None else str(run.path)}, holdout)


def _fingerprint(state: Mapping[str, Any]) -> str:
    # Imported here: a run that is refused has not waited for torch.
    from eigen2.store.state import fingerprint

    return fingerprint(state)
