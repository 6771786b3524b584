"""`evaluate --walk-forward N`: the run trained again on shorter histories, each fold a run of its own.

Folds are called NAME-fold1ofN, ... and lie beside the run; the last one is the run itself. One that is there is not
trained again, one that was stopped is resumed, and what a fold was found to be worth is read from it: the same command
goes on where it was.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from eigen2.algorithms.contract import Evaluation, WalkForward
from eigen2.config import Config, computing_differences, load_config
from eigen2.errors import ConfigError
from eigen2.harness.directory import point_latest
from eigen2.harness.evaluating import HOLDOUT, evaluate_run, opened
from eigen2.harness.evaluation_files import write_files
from eigen2.harness.identity import described
from eigen2.harness.own_data import kept_file
from eigen2.harness.run import Run
from eigen2.harness.tables import from_parquet
from eigen2.harness.training import Asked, resume_run, start_run


def walk_forward(
    run: Run, folds: int, console: Console, say: Callable[[str], None], overrides: Sequence[str] = ()
) -> Evaluation:
    """Train and evaluate what is missing, and join the folds; stored with the run."""
    if "final" not in run.checkpoints.names():
        raise ConfigError(
            f"{run.path} is not fully trained; `eigen2 train --resume {run.path}` completes it."
        )
    plan, data = _planned(run, folds, say, overrides)
    newest = run.path.parent / "latest"
    before = newest.resolve() if newest.exists() else None
    done = []
    for number, config in enumerate(plan.configs, start=1):
        done.append(_fold(_named(config, run, f"{run.name}-fold{number}of{folds}"), data, console))
        if before is not None:
            point_latest(before)
    with run.held():
        pieces = [_found(fold, say, ()) for fold in done]
        pieces.append(_found(run, say, overrides))
        evaluation = plan.join(pieces, [fold.name for fold in (*done, run)])
        run.add_evaluation(evaluation, say)
        say(f"files {write_files(run, evaluation)}")
    return evaluation


def _planned(
    run: Run, folds: int, say: Callable[[str], None], overrides: Sequence[str]
) -> tuple[WalkForward, Path | None]:
    """What the folds are, and the file in which the run keeps its data."""
    recovery = run.checkpoints.newest_good()
    data = None if recovery.checkpoint is None or overrides else kept_file(recovery.checkpoint)
    with opened(run, say, overrides) as experiment:
        return experiment.walk_forward(load_config(overrides, run.read_config()), folds), data


def _named(config: Config, run: Run, name: str) -> Config:
    place = config.run.model_copy(update={"root": run.path.parent, "name": name})
    return config.model_copy(update={"run": place})


def _fold(config: Config, data: Path | None, console: Console) -> Run:
    """The fold, trained to its end."""
    assert config.run.name is not None
    fold = Run(config.run.root / config.run.name)
    if not fold.path.exists():
        start_run([], console, Asked(split=HOLDOUT), base=config, data=data)
        return fold
    changed = computing_differences(fold.read_config(), config)
    if changed:
        raise ConfigError(
            f"{fold.path} has the name of a fold, but is another run ({described(changed)}); move it away."
        )
    if "final" not in fold.checkpoints.names():
        resume_run(str(fold.path), [], console, Asked(split=HOLDOUT))
    return fold


def _found(
    fold: Run, say: Callable[[str], None], overrides: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facts and series of a fold's evaluation on its holdout, which is made if it is missing."""
    record = _newest(fold)
    if record is None:
        evaluate_run(fold, HOLDOUT, say, overrides)
        record = _newest(fold)
        assert record is not None
    read = fold.checkpoints.objects.read
    return record, {name: from_parquet(read(hashed)) for name, hashed in record["series"].items()}


def _newest(fold: Run) -> dict[str, Any] | None:
    """Of the champion that training ended with."""
    step = fold.final_step()
    records = [r for r in fold.evaluations() if r.get("split") == HOLDOUT and not r.get("what_if")]
    return next((r for r in reversed(records) if r.get("final_step") == step), None)
