"""`verify`: is every byte of a run as it was written? Objects and manifests, logs, and the files people open."""

import hashlib
from dataclasses import replace
from pathlib import Path

from eigen2.errors import ConfigError
from eigen2.harness.run import Run
from eigen2.harness.sealed import SEALED, damage, holds
from eigen2.store.durable import PIECE
from eigen2.store.integrity import Report, Show, Survey, reported, steady_survey, unseen
from eigen2.store.layout import LOGS
from eigen2.store.manifest import Manifest
from eigen2.store.plain_files import open_plain
from eigen2.store.retention import RESUMABLE
from eigen2.store.tails import DIRECTORY


def verify_run(run: Run, sample: float = 1.0, show: Show = unseen) -> Report:
    """Check everything a run names; changes nothing."""
    found = steady_survey(run.checkpoints, sample, show)
    report = reported(run.checkpoints, replace(found, absent=absent(run, found)))
    damaged, missing, unproven = list(report.damaged), list(report.missing), list[str]()
    if not found.manifests and not found.refused:
        missing.append(f"{run.path} has no checkpoint: there are no hashes to check")
    newest = newest_of(found)
    if newest is not None:
        damaged += log_damage(run, newest).values()
        unproven += [f"{run.log(name)} has no hash" for name in newest.logs if name not in newest.log_hashes]
    for name in SEALED:
        path = run.path / name
        if sentence := damage(run, newest, name):
            (damaged if path.exists() else missing).append(sentence)
        elif path.is_file() and holds(path) is None:
            unproven.append(f"{path} was written by an earlier version and carries no checksum")
    return replace(report, damaged=tuple(damaged), missing=tuple(missing), unproven=tuple(unproven))


def newest_of(found: Survey) -> Manifest | None:
    """The checkpoint that a resume would begin from: it says how long the logs are."""
    usable = [manifest for name, manifest in found.manifests.items() if name in RESUMABLE]
    return max(usable, key=lambda manifest: manifest.step, default=None)


def absent(run: Run, found: Survey) -> tuple[str, ...]:
    """Checkpoints that should be there. One that came from a bucket has brought no others until the next save."""
    newest = newest_of(found)
    if newest is not None and run.facts().get("fetched") == newest.step:
        return ()
    return found.absent


def log_damage(run: Run, manifest: Manifest) -> dict[str, str]:
    """A sentence for each log that is not what a checkpoint says, by its name."""
    found: dict[str, str] = {}
    for name, size in manifest.logs.items():
        path = run.log(name)
        if name not in LOGS:
            continue
        there = path.stat().st_size if path.is_file() else 0
        if there < size and not (run.path / DIRECTORY).is_dir():
            found[name] = (
                f"{path} is damaged: it has {there:,} bytes, checkpoint '{manifest.name}' says {size:,}"
            )
        elif there >= size and prefix_hash(path, size) != manifest.log_hashes.get(
            name, prefix_hash(path, size)
        ):
            found[name] = (
                f"{path} is damaged: its first {size:,} bytes do not match checkpoint '{manifest.name}'"
            )
    return found


def prefix_hash(path: Path, size: int) -> str:
    """SHA-256 of the first `size` bytes of a file."""
    digest, left = hashlib.sha256(), size
    if size:
        with open_plain(path) as file:
            while left and (piece := file.read(min(left, PIECE))):
                digest.update(piece)
                left -= len(piece)
    return digest.hexdigest()


def share(text: str) -> float:
    """A part of the whole: 10% or 0.1."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0.0 < value <= 1.0:
        raise ConfigError(f"--sample is {text!r}; it must be a share of the objects, e.g. 10%.")
    return value


def verify_text(report: Report) -> str:
    """What a user reads when nothing is wrong."""
    lines = [f"note: {sentence}" for sentence in (*report.inexact, *report.unproven)]
    counted = f"{report.objects} objects, {report.bytes:,} bytes, {len(report.manifests)} manifests"
    if not report.unread:
        return "\n".join([*lines, f"{counted}: every hash matches."])
    return "\n".join(
        [
            *lines,
            f"{counted}: every hash that was checked matches; {report.unread} objects ({report.unread_bytes:,} bytes) "
            "were not read, only their presence and length were checked.",
        ]
    )
