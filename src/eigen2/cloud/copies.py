"""Another copy of a run, in a bucket or in a directory, as a source of what is damaged here.

Nothing it holds is believed: objects are proven by their names, manifests and files by their checksums.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from eigen2.cloud.bucket import Bucket, Corrupted, NotThere, Refused, Unreachable
from eigen2.cloud.location import parse
from eigen2.cloud.names import object_key
from eigen2.cloud.opening import open_bucket
from eigen2.cloud.pull import FACT_LIMITS, Remote, look
from eigen2.errors import ConfigError, DamagedStateError
from eigen2.store.manifest import Manifest
from eigen2.store.objects import Objects, Ref
from eigen2.store.tails import parse_tail

FAILURES = (Unreachable, Refused, NotThere, Corrupted)
FILE_LIMIT = 1 << 30


class RunCopy:
    def __init__(self, bucket: Bucket, run: str, url: str, say: Callable[[str], None]) -> None:
        self.bucket, self.run, self.url, self.say = bucket, run, url, say

    @cached_property
    def remote(self) -> Remote:
        """What is there; nothing, with a sentence, when it cannot be reached."""
        try:
            return look(self.bucket, self.run)
        except FAILURES as error:
            self.say(f"{self.url} cannot help: {error}")
            return Remote(self.bucket, self.run)

    @property
    def manifests(self) -> Mapping[str, Manifest]:
        return self.remote.manifests

    def facts(self) -> dict[str, Any]:
        try:
            return self.remote.facts()
        except FAILURES:
            return {}

    def give(self, name: str, size: int | None, objects: Objects) -> bool:
        """Put a good copy of an object where the damaged one lies, by one rename; False when there is none."""
        size = self.remote.objects.get(name) if size is None else size
        if size is None or name not in self.remote.objects:
            return False
        try:
            objects.receive(Ref(name, size), self.bucket.read(f"{self.run}/{object_key(name)}"))
        except (*FAILURES, DamagedStateError):
            return False
        return True

    def file(self, key: str) -> bytes | None:
        """A file beside the objects, a log with its tails; None when there is none that can be read."""
        try:
            content = self.bucket.get(f"{self.run}/{key}", FACT_LIMITS.get(key, FILE_LIMIT))
            tails = sorted(
                tail for tail in self.remote.files if (parsed := parse_tail(tail)) and parsed[0] == key
            )
            for tail in tails:
                offset = (parse_tail(tail) or ("", 0))[1]
                if offset <= len(content):
                    content = content[:offset] + self.bucket.get(f"{self.run}/{tail}", FILE_LIMIT)
        except FAILURES:
            return None
        return content


def open_copy(place: str, timeout_seconds: float, say: Callable[[str], None]) -> RunCopy:
    """The copy at a url or in a directory; it must be there."""
    if "://" not in place:
        directory = Path(place).expanduser().resolve()
        if not directory.is_dir():
            raise ConfigError(f"--from {place} is neither a directory nor a url.")
        place = f"file://{directory}"
    above, name = parse(place).split()
    copy = RunCopy(open_bucket(above, timeout_seconds), name, place, say)
    if not copy.remote.files:
        raise ConfigError(f"{place} holds no run.")
    return copy
