"""A run directory and everything that is written into it.

    runs/NAME/   config.yaml run.json *.jsonl objects/ checkpoints/ lock

Reading needs nothing. Writing the training state needs `owned()`: one process at a time has the lock, the journal and
the right to collect garbage. An evaluation may be added by anyone, also while the run trains.
"""

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigen2.cloud.pins import pinned_objects
from eigen2.errors import ConfigError, DamagedStateError, ResourceError, RunGone
from eigen2.harness.journal import (
    Journal,
    cut_back,
    lasting_events,
    mend_lines,
    plain,
    read_log,
    torn_sentence,
)
from eigen2.harness.lock import RunLock
from eigen2.harness.place import Place, held
from eigen2.store.bounded_json import load_table
from eigen2.store.checkpoints import Checkpoints
from eigen2.store.durable import append_line, remove_temporaries, write_atomically
from eigen2.store.layout import CONFIG_LIMIT, FACTS_LIMIT, LOGS, check_layout
from eigen2.store.plain_files import open_plain, read_plain
from eigen2.store.seals import json_text, sealed_record, sealed_text
from eigen2.store.series import series_of
from eigen2.store.tails import join_tails

if TYPE_CHECKING:
    from eigen2.cloud.uploader import Uploader
    from eigen2.config import Config
    from eigen2.evaluation.result import Evaluation


class Run:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.is_owned = False
        """Set while this process has the run's lock."""
        self._place: Place | None = None
        """The directory as this process found it, while it holds it."""
        self._id: str | None = None
        """What run.json calls this run, while this process owns it."""
        self.typed: frozenset[str] = frozenset()
        """Words of the command line: code that the stored config names is imported only if it is among them."""
        self.uploads: Uploader | None = None
        """Set while this process trains the run and sends it to a cloud."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def config_file(self) -> Path:
        return self.path / "config.yaml"

    @property
    def metadata_file(self) -> Path:
        return self.path / "run.json"

    @cached_property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.path, self.pinned, self.check_place)

    def log(self, name: str) -> Path:
        return self.path / f"{name}.jsonl"

    # Facts

    def write_config(self, config: "Config") -> None:
        import yaml

        text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
        write_atomically(self.config_file, sealed_text(text), self.check_place)

    def read_config(self, to_open: bool = True) -> "Config":
        """The stored config. One `to_open` the run with names no code to import, unless that was typed too."""
        from eigen2.algorithms import registry
        from eigen2.config import validate
        from eigen2.harness.trust import check_code

        values = self.raw_config()
        if isinstance(values, dict) and isinstance(values.get("alg"), dict):
            # A plug-in that is not installed here is no damage.
            registry.algorithm(str(values["alg"].get("kind")))
        try:
            config = validate(values, stored=True)
        except ConfigError as error:
            raise DamagedStateError(
                f"{self.config_file} cannot be read as a config{self._other_version()}: {error}"
            ) from error
        if to_open:
            check_code(config, self.typed, self.config_file)
        return config

    def _other_version(self) -> str:
        """Which version the run is of, if that is another one."""
        packages = self.facts().get("packages")
        wrote, here = packages.get("eigen2") if isinstance(packages, dict) else None, version("eigen2")
        return "" if wrote in (None, here) else f" by version {here} (version {wrote} wrote it)"

    def raw_config(self) -> Any:
        """config.yaml as it stands, in the words of the version that wrote it."""
        from eigen2.harness.plain_yaml import load_plain

        try:
            return load_plain(read_plain(self.config_file, CONFIG_LIMIT).decode("utf-8"))
        except ValueError as error:
            raise DamagedStateError(f"{self.config_file} cannot be read as a config: {error}") from error

    def metadata(self) -> dict[str, Any]:
        """What run.json says; empty before there is one."""
        if not self.metadata_file.exists():
            return {}
        try:
            return load_table(read_plain(self.metadata_file, FACTS_LIMIT))
        except (ValueError, IsADirectoryError) as error:
            raise DamagedStateError(
                f"{self.metadata_file} is damaged ({error}); training does not need what it says: restore it or delete it."
            ) from error

    def facts(self) -> dict[str, Any]:
        """What run.json says, as far as it can be read."""
        with suppress(DamagedStateError):
            return self.metadata()
        return {}

    def note(self, **facts: Any) -> None:
        """Update run.json."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        known = self.metadata()
        found = known.get("id")
        if self._id is not None and isinstance(found, str) and found != self._id:
            raise RunGone(
                f"{self.metadata_file} is that of another run, {found}, which was put here while this process worked "
                f"on {self._id}; nothing more is written. Restore the run from a copy."
            )
        identity = self._id or (found if isinstance(found, str) else secrets.token_hex(16))
        if self.is_owned:
            self._id = identity
        values = {**known, "id": identity, **facts, "updated": now}
        write_atomically(self.metadata_file, json_text(sealed_record(values)), self.check_place)

    def identify(self) -> str:
        """What tells this run from others of the same name; given once."""
        if not isinstance(self.metadata().get("id"), str):
            self.note()
        return str(self.metadata()["id"])

    # Evaluations

    def evaluations(self) -> list[dict[str, Any]]:
        return read_log(self.log("evaluations"))

    def add_evaluation(self, evaluation: "Evaluation", say: Callable[[str], None] = lambda _: None) -> None:
        """Its series as objects, then one line in evaluations.jsonl, written whole, that names them.

        What cannot be recorded must not be shown: a use of the holdout would be forgotten.
        """
        try:
            if cut := self._record(evaluation):
                say(torn_sentence(self.log("evaluations"), cut))
        except OSError as error:
            with suppress(OSError):
                self.check_place()
            raise self._unrecorded(error.strerror or str(error)) from error

    def check_recordable(self) -> None:
        """Refuse an evaluation that could not be recorded before it is made: a holdout that was opened is used."""
        if not os.access(self.path, os.W_OK):
            raise self._unrecorded("the directory cannot be written")

    def _unrecorded(self, why: str) -> ResourceError:
        return ResourceError(
            f"The evaluation could not be recorded in {self.log('evaluations')} ({why}) and is not shown; make room or "
            "make it writable, then evaluate again."
        )

    def _record(self, evaluation: "Evaluation") -> int:
        from eigen2.harness.tables import to_parquet

        objects = self.checkpoints.objects
        with objects.guest():
            named = {name: objects.put(to_parquet(table)).hash for name, table in evaluation.series.items()}
            panels = [panel.to_json() for panel in evaluation.panels]
            record = {"time": round(time.time(), 3), **evaluation.facts, "series": named, "panels": panels}
            record["final_step"] = self.final_step()
            line = (json.dumps(sealed_record(plain(record)), allow_nan=False) + "\n").encode()
            return append_line(self.log("evaluations"), line, self.check_place)

    def final_step(self) -> int | None:
        """The step at which training ended; None while it has not, or when that cannot be read."""
        final = self.checkpoints.good().get("final")
        return None if final is None else final.step

    def pinned(self) -> set[str]:
        """Objects that stay although no checkpoint names them: the series of evaluations, and what is queued for
        upload.

        A log that cannot be read pins every object that is here and named in it: it may be repaired.
        """
        path = self.log("evaluations")
        try:
            series = {name for record in read_log(path) for name in series_of(record)}
        except DamagedStateError:
            # Hashes that name nothing here are mostly those of the lines themselves.
            series = {name for name in _named_in(path) if self.checkpoints.objects.path(name).exists()}
        return series | pinned_objects(self.path)

    # Ownership

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, whatever is written goes into the directory that is here now, or nowhere."""
        with held(self.path) as place, self._at(place):
            yield

    def check_place(self) -> None:
        """Raise RunGone if this process holds the run and it was moved, deleted or taken over meanwhile."""
        if self._place is not None:
            self._place.check()

    @contextmanager
    def owned(self, clean: bool = True) -> Iterator[RunLock]:
        """The right to write this run; what a killed owner left behind is removed first. Without `clean`, objects that
        nobody names stay: a damaged run may turn out to need them."""
        check_layout(self.path)
        with RunLock(self.path) as lock:
            # A directory that was held before must be the one that is locked now.
            self.check_place()
            with self._at(lock.place):
                remove_temporaries(self.path)
                join_tails(self.path)
                if clean:
                    self.checkpoints.clean()
                self.is_owned = True
                try:
                    yield lock
                finally:
                    self.is_owned, self._id = False, None

    @contextmanager
    def _at(self, place: Place) -> Iterator[None]:
        before, self._place = self._place, place
        try:
            yield
        finally:
            self._place = before

    def committed(self) -> None:
        """A checkpoint was saved: notify the uploader."""
        if self.uploads is not None:
            self.uploads.committed()

    def upload_news(self) -> list[str]:
        """What has changed about the uploads since the last call."""
        return [] if self.uploads is None else self.uploads.take_news()

    def upload_owners(self) -> dict[str, int]:
        """Bytes in memory on their way to a bucket."""
        return {} if self.uploads is None else {"uploader": self.uploads.nbytes}

    @contextmanager
    def journal(self, sizes: Mapping[str, int] | None) -> Iterator[Journal]:
        """The logs, cut back to the `sizes` of a checkpoint, or emptied when a run begins anew; owners only. Why earlier
        processes ended or were stuck stays on record."""
        fence = self.check_place
        lasting = [] if sizes is None else lasting_events(self.log("events"), sizes.get("events", 0))
        mended = cut_back(self.path, dict.fromkeys(LOGS, 0) if sizes is None else sizes, fence)
        mended += mend_lines(self.path, (*LOGS, "evaluations"), fence)
        fence()
        with closing(Journal(self.path, LOGS, fence)) as journal:
            # Whatever is written from here on goes into files that were opened in the right place.
            fence()
            for record in lasting:
                journal.append("events", record)
            journal.mended = tuple(mended)
            for sentence in mended:
                journal.event("log_mended", sentence)
            if self.uploads is not None:
                self.uploads.start()
            yield journal


def _named_in(path: Path) -> set[str]:
    """Everything in a file that looks like the name of an object, read a piece at a time."""
    found: set[str] = set()
    with open_plain(path) as file:
        rest = b""
        while piece := file.read(1 << 20):
            text = rest + piece
            found |= {name.decode() for name in re.findall(b"[0-9a-f]{64}", text)}
            rest = text[-63:]
    return found
