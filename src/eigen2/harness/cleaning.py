"""`eigen2 runs clean`: what nothing needs any more, and how it goes.

A run that trains keeps itself clean; what a killed one left is removed when it is resumed. Runs that nobody resumes
keep it: objects that no checkpoint, evaluation or upload names, files that were never finished, and directories that
never became a run. What retention keeps (`store/retention.py`) stays, and a damaged run is left as it is: a repair may
need what nothing names.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eigen2.cloud.words import legible, size_words
from eigen2.errors import ConfigError, DamagedStateError, Eigen2Error
from eigen2.harness.directory import LATEST, NEW
from eigen2.harness.leftovers import leftovers, remove_leftovers
from eigen2.harness.listing import disk_bytes, run_paths, state_of
from eigen2.harness.lock import held
from eigen2.harness.run import Run
from eigen2.store.durable import TEMPORARY
from eigen2.store.layout import check_layout


@dataclass(frozen=True)
class Waste:
    """What can go of one run, or of the root; `left_alone` says why nothing does."""

    name: str
    objects: int = 0
    files: int = 0
    """Temporary files, and directories that never became a run."""
    bytes: int = 0
    left_alone: str | None = None

    @property
    def nothing(self) -> bool:
        return not self.objects and not self.files

    def line(self) -> str:
        if self.left_alone is not None:
            return f"{self.name}: left alone, {self.left_alone}"
        parts = [_count(self.objects, "object"), _count(self.files, "unfinished file")]
        return f"{self.name}: {', '.join(part for part in parts if part)}, {size_words(self.bytes)}"


def _count(number: int, what: str) -> str:
    return "" if not number else f"{number} {what}" + ("s" if number != 1 else "")


def waste_below(root: Path, runs: Sequence[Run] | None = None) -> list[Waste]:
    """Of these runs, or of all below `root` and of `root` itself; nothing is changed."""
    found = [_waste(run) for run in ([Run(path) for path in run_paths(root)] if runs is None else runs)]
    if runs is None and root.is_dir():
        rests = leftovers(root, NEW, LATEST)
        size = sum(disk_bytes(path) for path in rests)
        found.append(Waste(f"{root}, directories that never became a run", files=len(rests), bytes=size))
    return [waste for waste in found if waste.left_alone is not None or not waste.nothing]


def _waste(run: Run) -> Waste:
    try:
        check_layout(run.path)
        if (why := _why_not(run)) is not None:
            return Waste(run.name, left_alone=why)
        objects = run.checkpoints.garbage()
        files = _temporaries(run)
        size = sum(run.checkpoints.objects.size(name) for name in objects)
        return Waste(run.name, len(objects), len(files), size + sum(path.lstat().st_size for path in files))
    except (Eigen2Error, OSError) as error:
        return Waste(run.name, left_alone=f"it cannot be read ({error})")


def _why_not(run: Run) -> str | None:
    """Why a run is not cleaned; None when it may be."""
    if held(run.path) in ("here", "elsewhere"):
        return "a process works on it"
    if state_of(run, run.facts()) == "damaged":
        return "it is damaged; `eigen2 repair` may need files that nothing refers to"
    checkpoints = run.checkpoints
    good = checkpoints.good()
    lacking = any(
        not checkpoints.objects.path(ref.hash).is_file()
        for manifest in good.values()
        for ref in manifest.objects.values()
    )
    if lacking or len(good) < len(checkpoints.names()):
        return "a checkpoint is damaged; `eigen2 repair` may need files that nothing refers to"
    return None


def _temporaries(run: Run) -> list[Path]:
    places = (run.path, run.checkpoints.directory, run.checkpoints.objects.root)
    return [path for place in places for path in place.glob(f"{TEMPORARY}*")]


def clean_below(root: Path, waste: Sequence[Waste], runs: Sequence[Run] | None = None) -> int:
    """Remove what was found, run by run, each under its lock, as a resume would; returns the bytes that are free now.

    What has changed since it was looked at is looked at again: a run that somebody works on by now is left alone."""
    found = {run.name: run for run in ([Run(path) for path in run_paths(root)] if runs is None else runs)}
    freed = sum(_cleaned(found[one.name]) for one in waste if one.left_alone is None and one.name in found)
    if runs is None and root.is_dir():
        sizes = {path.name: disk_bytes(path) for path in leftovers(root, NEW, LATEST)}
        freed += sum(sizes.get(name, 0) for name in remove_leftovers(root, NEW, LATEST))
    return freed


def _cleaned(run: Run) -> int:
    before = disk_bytes(run.path)
    try:
        if _why_not(run) is not None:
            return 0
        with run.held(), run.owned():
            pass
    except (ConfigError, DamagedStateError):
        # Taken, moved or damaged since it was looked at.
        return 0
    return max(0, before - disk_bytes(run.path))


def clean(
    root: Path, runs: Sequence[Run] | None, confirmed: Callable[[str], bool], say: Callable[[str], None]
) -> dict[str, Any]:
    """Show what could go, ask, and remove it if the answer is yes."""
    found = waste_below(root, runs)
    for one in found:
        say(legible(one.line()))
    total = sum(one.bytes for one in found)
    freed: int | None = None
    if any(one.left_alone is None for one in found):
        if confirmed(size_words(total)):
            freed = clean_below(root, found, runs)
            say(f"{size_words(freed)} are free now.")
    else:
        say("There is nothing to clean.")
    return {"found": [asdict(one) for one in found], "bytes": total, "freed_bytes": freed}
