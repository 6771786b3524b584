"""`repair`: from a damaged run to a whole one, at the least cost.

Nothing is written over before what takes its place is whole and on disk, and what was damaged stays below `damaged/`. A
repair that is killed is begun again; whatever it has done already is found done.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eigen2.cloud.copies import RunCopy, open_copy
from eigen2.errors import ConfigError, Eigen2Error, ResourceError
from eigen2.harness.mended_files import MendedFiles, mend_evaluations
from eigen2.harness.mending import Account, Mending
from eigen2.harness.run import Run
from eigen2.harness.verifying import absent, verify_run
from eigen2.store.disk import FAILING
from eigen2.store.integrity import Show, steady_survey, unseen

TIMEOUT_SECONDS = 30.0


def damaged_run(name: str, root: Path) -> Run:
    """A run by directory or by name; one whose config is lost is a run if it has checkpoints."""
    for path in (Path(name), root / name):
        if (path / "config.yaml").is_file() or (path / "checkpoints").is_dir():
            return Run(path.resolve())
    raise ConfigError(f"No run called {name} here or in {root.absolute()}; `eigen2 runs` lists them.")


def repair_run(
    run: Run, source: str | None, say: Callable[[str], None], show: Show = unseen
) -> dict[str, Any]:
    """Make a run whole as far as that can be; needs its lock. Returns what was found, done and lost."""
    account = Account()
    with _named_failures(run), run.owned(clean=False):
        before = verify_run(run, show=show)
        if before.ok:
            return _facts(run, account, before.ok)
        account.damaged += (*before.damaged, *before.missing)
        _repair(run, _copies(run, source, say), account, show)
        run.checkpoints.clean()
        after = verify_run(run, show=show)
    account.lost += (*after.damaged, *after.missing)
    return _facts(run, account, after.ok and not account.lost)


@contextmanager
def _named_failures(run: Run) -> Iterator[None]:
    """A disk that is full or broken ends a repair, and nothing else: what it has done already is found done."""
    try:
        yield
    except OSError as error:
        if error.errno not in FAILING:
            raise
        raise ResourceError(
            f"{run.path} could not be fully repaired ({error.strerror}); nothing of it is lost. Make room or mend the "
            "disk, then repair it again."
        ) from error


def _repair(run: Run, copies: list[RunCopy], account: Account, show: Show) -> None:
    mend_evaluations(run, copies, account)
    found = steady_survey(run.checkpoints)
    mending = Mending(run, found, absent(run, found), copies, account)
    files = MendedFiles(run, mending, copies, account)
    # First, because what follows from the config can be computed again.
    files.config()
    mending.mend(show)
    files.lost_series(mending.bad & found.pinned)
    files.facts()
    files.logs()
    newest = mending.newest()
    inexact = () if newest is None else newest.inexact
    if set(inexact) - {s for m in found.manifests.values() for s in m.inexact}:
        files.event({"time": round(time.time(), 3), "kind": "repair", "message": inexact[-1], "exact": False})
    mending.commit()
    files.best_agent()
    if account.fetched or account.rebuilt or account.lost:
        repairs = run.facts().get("repairs")
        done = {"time": round(time.time(), 3), **account.as_dict()}
        run.note(exact=not inexact, repairs=[*(repairs if isinstance(repairs, list) else []), done])


def _copies(run: Run, source: str | None, say: Callable[[str], None]) -> list[RunCopy]:
    """The copy that was named, and the run's own place in the cloud; another run is refused."""
    copies = [] if source is None else [open_copy(source, TIMEOUT_SECONDS, say)]
    for copy in copies:
        if os.path.realpath(run.path) == copy.url.removeprefix("file://"):
            raise ConfigError(f"--from {copy.url} is the run itself; name another copy.")
    if (own := _own_cloud(run, say)) is not None:
        copies.append(own)
    for copy in copies:
        if not _is_same(run, copy):
            raise ConfigError(f"{copy.url} is another run, not a copy of {run.path}.")
    return copies


def _own_cloud(run: Run, say: Callable[[str], None]) -> RunCopy | None:
    from eigen2.cloud.opening import open_bucket
    from eigen2.config import CloudConfig
    from eigen2.harness.syncing import located

    try:
        settings = run.read_config().cloud
    except (Eigen2Error, OSError):
        settings = CloudConfig()
    try:
        location = located(settings)
        if location is None:
            return None
        bucket = open_bucket(location, min(settings.timeout_seconds, TIMEOUT_SECONDS))
        return RunCopy(bucket, run.name, location.below(run.name).url, say)
    except Eigen2Error as error:
        say(f"the run's cloud cannot help: {error}")
        return None


def _is_same(run: Run, copy: RunCopy) -> bool:
    """By the id, where both have one; else by what their checkpoints say they are."""
    ours, theirs = run.facts().get("id"), copy.facts().get("id")
    if isinstance(ours, str) and isinstance(theirs, str):
        return ours == theirs
    here = next(iter(run.checkpoints.good().values()), None)
    there = next(iter(copy.manifests.values()), None)
    if here is None or there is None:
        return True
    return all(here.identity.get(key) == there.identity.get(key) for key in ("config", "config_hash", "data"))


def _facts(run: Run, account: Account, ok: bool) -> dict[str, Any]:
    return {"run": str(run.path), "ok": ok, **account.as_dict()}


def repair_text(facts: dict[str, Any]) -> str:
    if not facts["damaged"]:
        return "nothing is damaged: every hash matches"
    words = {"damaged": "damaged", "fetched": "fetched", "rebuilt": "rebuilt", "lost": "lost"}
    lines = [f"{words[kind]:8} {sentence}" for kind in words for sentence in facts[kind]]
    return "\n".join([*lines, "the run is whole again" if facts["ok"] else "something is lost; see above"])
