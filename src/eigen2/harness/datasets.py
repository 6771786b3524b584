"""Stored experience of other runs: where it is, and how a new run reads it.

It is read once, when a run begins. From the run's first checkpoint on, the data is part of the run itself, and a
resume never looks at the source again.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigen2.config import Config
from eigen2.errors import ConfigError
from eigen2.harness.directory import find_run
from eigen2.harness.identity import check_stored_config
from eigen2.harness.run import Run
from eigen2.store.checkpoints import Checkpoint, NewCheckpoint
from eigen2.store.durable import make_directory

if TYPE_CHECKING:
    from eigen2.replay import Replay


class RunDatasets:
    """Datasets of the contract, found below one root directory."""

    def __init__(self, root: Path, typed: frozenset[str] = frozenset()) -> None:
        self._root, self._typed = root, typed

    def locate(self, source: Path) -> Path:
        given = source.expanduser()
        if given.is_file():
            _checkpoint_name(given)
            return Path(os.path.abspath(given))
        return find_run(str(given), self._root).path

    def config(self, source: Path) -> Config:
        run = _run_of(source)
        run.typed = self._typed
        check_stored_config(run)
        return run.read_config()

    def replay(self, source: Path) -> tuple["Replay", dict[str, Any]]:
        run = _run_of(source)
        there = run.checkpoints.names()
        name = _checkpoint_name(source) if source.is_file() else None
        name = name or next((known for known in ("final", "latest") if known in there), None)
        if name is None:
            raise ConfigError(f"{source} has no checkpoint yet; let it train for a while first.")

        # Imported here: whoever names no stored experience does not wait for torch.
        from eigen2.replay import Replay

        def restore(checkpoint: Checkpoint) -> "Replay":
            if checkpoint.manifest.replay is None:
                raise ConfigError(
                    f"checkpoint '{name}' of {run.path} holds no replay; use final, latest or previous."
                )
            return Replay.restore(checkpoint.manifest.replay, checkpoint.objects.read)

        checkpoint, replay = run.checkpoints.read(name, restore)
        if len(replay) == 0:
            raise ConfigError(f"The replay of {source} is empty; let the run train for a while first.")
        facts = {
            "path": str(source),
            "checkpoint": name,
            "step": checkpoint.manifest.step,
            "transitions": len(replay),
        }
        return replay, facts


def write_dataset(directory: Path, config: Config, replay: "Replay") -> None:
    """Your own data in the layout of a run, for settings that name a run whose replay is read."""
    if directory.exists():
        raise ConfigError(f"{directory} exists; name a new directory.")
    make_directory(directory)
    run = Run(directory)
    run.checkpoints.save(NewCheckpoint(step=0, state={}, replay=replay.snapshot()))
    run.write_config(config)


def _run_of(source: Path) -> Run:
    run = Run(source.parent.parent if source.is_file() else source)
    if not (run.path / "checkpoints").is_dir():
        raise ConfigError(f"{source} is neither a run with checkpoints nor one of its checkpoint files.")
    return run


def _checkpoint_name(file: Path) -> str:
    if file.suffix != ".json" or file.parent.name != "checkpoints":
        raise ConfigError(f"{file} is not a checkpoint; name a run or one of RUN/checkpoints/*.json.")
    return file.stem
