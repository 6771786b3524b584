"""Logs, config, facts, evaluations and the best agent of a damaged run: from a good copy, else what is left of them."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eigen2.cloud.copies import RunCopy
from eigen2.errors import Eigen2Error
from eigen2.harness.mending import Account, Mending
from eigen2.harness.run import Run
from eigen2.harness.sealed import (
    BEST_AGENT,
    CONFIG,
    EVALUATIONS,
    FACTS,
    content_holds,
    copied,
    damage,
    write_best_agent,
)
from eigen2.harness.verifying import log_damage, prefix_hash
from eigen2.store.aside import keep_aside
from eigen2.store.checkpoints import Checkpoint
from eigen2.store.durable import rewrite, write_atomically
from eigen2.store.manifest import Manifest
from eigen2.store.seals import line_holds, sealed_record


def mend_evaluations(run: Run, copies: Sequence[RunCopy], account: Account) -> None:
    """Good lines of evaluations.jsonl stay, copies add theirs; done first, because lines name objects."""
    path = run.path / EVALUATIONS

    def mended(content: bytes) -> bytes | None:
        lines = content.splitlines()
        good = [line for line in lines if line_holds(line) is not False]
        if good == lines:
            return None
        theirs = (line for copy in copies for line in (copy.file(EVALUATIONS) or b"").splitlines())
        added = [line for line in dict.fromkeys(theirs) if line_holds(line) and line not in good]
        keep_aside(run.path, path)
        if added:
            account.fetched.append(f"{len(added)} evaluations from a copy")
        if (gone := len(lines) - len(good) - len(added)) > 0:
            account.lost.append(
                f"evaluations.jsonl: {gone} damaged lines; a use of the holdout may be among them"
            )
        return b"".join(line + b"\n" for line in (*good, *added))

    if path.is_file():
        rewrite(path, mended)


class MendedFiles:
    def __init__(self, run: Run, mending: Mending, copies: Sequence[RunCopy], account: Account) -> None:
        self.run, self.mending, self.copies, self.account = run, mending, copies, account

    # Logs

    def logs(self) -> None:
        """Each log up to the length that the newest checkpoint says."""
        newest = self.mending.newest()
        for name in log_damage(self.run, newest) if newest is not None else ():
            assert newest is not None
            keep_aside(self.run.path, self.run.log(name))
            if not self._log_fetched(name, newest):
                self._log_left(name, newest)

    def _log_fetched(self, name: str, manifest: Manifest) -> bool:
        size, wanted = manifest.logs[name], manifest.log_hashes.get(name)
        for copy in self.copies:
            content = copy.file(f"{name}.jsonl")
            if content is None or len(content) < size:
                continue
            if wanted in (None, hashlib.sha256(content[:size]).hexdigest()):
                write_atomically(self.run.log(name), content[:size])
                self.account.fetched.append(f"{name}.jsonl from {copy.url}")
                return True
        return False

    def _log_left(self, name: str, newest: Manifest) -> None:
        """Every line that is a record stays; what the checkpoints say of the log's length follows."""
        path = self.run.log(name)
        content = path.read_bytes() if path.is_file() else b""
        lines = content[: newest.logs[name]].splitlines(keepends=True)
        kept = [line for line in lines if line.endswith(b"\n") and _is_record(line)]
        short = newest.logs[name] - len(content)
        self.account.lost.append(
            f"{path.name}: "
            + (f"its last {short:,} bytes; " if short > 0 else "")
            + f"{len(lines) - len(kept)} of {len(lines)} lines that are no records are cut; "
            + (
                "the others are kept"
                if len(kept) < len(lines) or short > 0
                else "all lines are records and are kept, though one of them was changed"
            )
        )
        whole = b"".join(kept)
        write_atomically(path, whole)

        def shortened(manifest: Manifest) -> Manifest:
            if name not in manifest.logs:
                return manifest
            before = content[: manifest.logs[name]].splitlines(keepends=True)
            size = sum(len(line) for line in before if line.endswith(b"\n") and _is_record(line))
            return replace(
                manifest,
                logs={**manifest.logs, name: size},
                log_hashes={**manifest.log_hashes, name: prefix_hash(path, size)},
            )

        self.mending.change(shortened)

    def event(self, record: dict[str, Any]) -> None:
        """A line in events.jsonl that the newest checkpoint includes, so that a resume does not cut it off."""
        newest, path = self.mending.newest(), self.run.log("events")
        if newest is None or "events" not in newest.logs:
            return
        content = path.read_bytes()[: newest.logs["events"]] if path.is_file() else b""
        content += (json.dumps(record, separators=(",", ":")) + "\n").encode()
        write_atomically(path, content)
        logs = {**newest.logs, "events": len(content)}
        hashes = {**newest.log_hashes, "events": hashlib.sha256(content).hexdigest()}
        same = (newest.step, newest.logs)
        self.mending.change(
            lambda m: replace(m, logs=logs, log_hashes=hashes) if (m.step, m.logs) == same else m
        )

    # Files with a checksum of their own

    def config(self) -> None:
        """From a copy; else as it stands, if it is the config of the checkpoints; else from what they say."""
        newest = self.mending.newest()
        if damage(self.run, newest, CONFIG) is None and self.run.config_file.is_file():
            return
        keep_aside(self.run.path, self.run.config_file)
        if self._file_fetched(CONFIG) or newest is None:
            return
        from eigen2.config import computing_differences, validate

        known = newest.identity.get("config")
        try:
            stored = None if known is None else validate(known)
        except Eigen2Error:
            stored = None
        try:
            here = self.run.read_config() if self.run.config_file.is_file() else None
        except Eigen2Error:
            here = None
        if here is not None and (stored is None or not computing_differences(stored, here)):
            self.run.write_config(here)
            self.account.rebuilt.append(
                "config.yaml reads as the config of the checkpoints and is kept as it is"
            )
        elif stored is not None:
            run = stored.run.model_copy(update={"root": self.run.path.parent, "name": self.run.name})
            self.run.write_config(stored.model_copy(update={"run": run}))
            self.account.lost.append(
                "config.yaml: settings that do not change what is computed (cloud, intervals) are at their defaults"
            )
        else:
            self.account.lost.append("config.yaml cannot be read, and no checkpoint knows it")

    def facts(self) -> None:
        """run.json: from a copy, else what can be read of it."""
        newest = self.mending.newest()
        readable = bool(self.run.facts())
        if damage(self.run, newest, FACTS) is None and (readable or not self.run.metadata_file.exists()):
            return
        keep_aside(self.run.path, self.run.metadata_file)
        if self._file_fetched(FACTS):
            return
        if readable:
            self.run.note()
            self.account.rebuilt.append(
                "run.json can be read and is kept as it is, though a part of it was changed"
            )
            return
        self.run.metadata_file.unlink(missing_ok=True)
        done = "final" in self.run.checkpoints.names()
        self.run.note(status="done" if done else "stopped", reason=None)
        self.account.lost.append("run.json: command, versions and host of the run are not known any more")

    def lost_series(self, bad: set[str]) -> None:
        """Evaluations no longer name series whose objects are lost."""
        path = self.run.path / EVALUATIONS

        def without(content: bytes) -> bytes | None:
            lines = content.splitlines()
            written = [_without_series(line, bad) for line in lines]
            if written == lines:
                return None
            keep_aside(self.run.path, path)
            self.account.lost.append("series of an evaluation: evaluate again to have them")
            return b"".join(line + b"\n" for line in written)

        if bad and path.is_file():
            rewrite(path, without)

    def best_agent(self) -> None:
        """From the best checkpoint, else from the newest."""
        if damage(self.run, self.mending.newest(), BEST_AGENT) is None:
            return
        keep_aside(self.run.path, self.run.path / BEST_AGENT)
        if self._file_fetched(BEST_AGENT):
            return
        names = self.run.checkpoints.names()
        try:
            name = "best" if "best" in names else "latest"
            self._write_best_agent(self.run.checkpoints.load(name))
        except Eigen2Error as error:
            self.account.lost.append(f"{BEST_AGENT}: {error}")
        else:
            self.account.rebuilt.append(f"{BEST_AGENT} from checkpoint '{name}'")

    def _write_best_agent(self, checkpoint: Checkpoint) -> None:
        from eigen2.algorithms import registry
        from eigen2.harness.host import Host
        from eigen2.harness.own_data import kept_file

        config, state = self.run.read_config(), checkpoint.state()
        host = Host(config, self.run, data=kept_file(checkpoint))
        with registry.algorithm(config.alg.kind).open(config, host.services) as experiment:
            with checkpoint.loading():
                experiment.trainer.load_state_dict(state)
            write_best_agent(self.run, copied(experiment.trainer.best_weights()))

    def _file_fetched(self, name: str) -> bool:
        for copy in self.copies:
            content = copy.file(name)
            if content is not None and content_holds(name, content):
                write_atomically(self.run.path / name, content)
                self.account.fetched.append(f"{name} from {copy.url}")
                return True
        return False


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _without_series(line: bytes, bad: set[str]) -> bytes:
    """An evaluation that does not name what is lost."""
    try:
        record = json.loads(line)
        series = record["series"]
        lost = sorted(name for name, object_ in series.items() if object_ in bad)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return line
    if not lost:
        return line
    left = {name: object_ for name, object_ in series.items() if name not in lost}
    return json.dumps(sealed_record({**record, "series": left, "lost_series": lost})).encode()
