"""A run that trains and its cloud: how it is found and proven, how uploads begin, and how they end."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eigen2.errors import ConfigError, RunGone
from eigen2.harness.lock import RunLock
from eigen2.harness.progress import Say, sayer, transferring
from eigen2.harness.run import Run
from eigen2.harness.signals import StopSignals

if TYPE_CHECKING:
    from eigen2.cloud.bucket import Bucket
    from eigen2.cloud.lease import Lease
    from eigen2.cloud.location import Location
    from eigen2.cloud.mirror import Mirror
    from eigen2.cloud.uploader import Uploader
    from eigen2.config import CloudConfig, Config

OFF = "off"
TRIED_AGAIN = "Training continues; uploads are tried again."
PROBE_SECONDS = 15.0
"""A server that takes longer to answer counts as out of reach, and nothing waits for it."""
GIVE_BACK_SECONDS = 10.0
TO_LOOK_AT = ("init", "best")
"""Checkpoints that a resume does not need; one that began from a bucket fetches them while it trains."""


@dataclass
class Cloud:
    """An open bucket. `now` is the server's time at the last probe; None while it has not been reached."""

    location: "Location"
    bucket: "Bucket"
    settings: "CloudConfig"
    now: datetime | None = None
    fetched: bool = False
    """Whether this process has fetched the run from here: what it could use is then the newest there is."""
    damaged: frozenset[str] = frozenset()
    """Objects that were found damaged meanwhile."""
    failure: str | None = None
    """Why the server could not be reached at the start."""
    _lease: "Lease | None" = None

    def url(self, run: str) -> str:
        return self.location.below(run).url

    def settled_in(self, config: "Config") -> "Config":
        """The config of a run that goes here; its settings are those of the cloud from now on."""
        self.settings = config.cloud.model_copy(update={"url": self.location.url})
        return config.model_copy(update={"cloud": self.settings})

    def probe(self) -> datetime:
        """Store, read and delete an object; returns the server's time."""
        from eigen2.cloud.opening import probe
        from eigen2.cloud.pace import with_timeout

        self.now = with_timeout(PROBE_SECONDS, lambda: probe(self.bucket), self.location.url)
        return self.now

    def lease(self, run: Run) -> "Lease":
        """The lease of the one run that this process works on."""
        from eigen2.cloud.lease import Lease

        if self._lease is None or self._lease.run != run.name:
            self._lease = Lease(self.bucket, run.name, run.path, self.settings.lease_seconds)
        return self._lease

    def give_back(self) -> None:
        from eigen2.cloud.bucket import Corrupted, NotThere, Refused, Unreachable
        from eigen2.cloud.pace import with_timeout

        if self._lease is not None and self._lease.held:
            # Out of reach, it expires by itself.
            with suppress(Unreachable, Refused, NotThere, Corrupted):
                with_timeout(GIVE_BACK_SECONDS, self._lease.release, self.location.url)

    def mirror(self, run: Run) -> "Mirror":
        from eigen2.cloud.mirror import Mirror

        settings = self.settings
        mirror = Mirror(
            run.path, self.bucket, run.name, self.url(run.name),
            exclude=settings.exclude, max_mbps=settings.max_mbps, fence=run.check_place,
        )  # fmt: skip
        mirror.image.doubt(self.damaged)
        return mirror


def located(settings: "CloudConfig") -> "Location | None":
    """Where runs go: `cloud.url`, else what CLOUD_PROVIDER and CLOUD_BUCKET say; None when neither is given."""
    from eigen2.cloud.location import from_environment, parse

    if settings.url == OFF:
        return None
    return parse(settings.url) if settings.url is not None else from_environment(os.environ)


def opened(location: "Location", settings: "CloudConfig", root: Path) -> Cloud:
    """The place where the runs below `root` are kept."""
    from eigen2.cloud.opening import open_bucket

    copy = location.directory
    if copy is not None and os.path.realpath(copy) == os.path.realpath(root):
        raise ConfigError(
            f"{location.url} is the directory of the runs themselves; name another place for the copy."
        )
    return Cloud(location, open_bucket(location, settings.timeout_seconds), settings)


def open_cloud(config: "Config", say: Say) -> tuple["Config", Cloud | None]:
    """The cloud of a run, proven, and the config that names it.

    What is wrong for good is an error now: package, credentials, bucket. A server that cannot be reached is said, and
    tried again while the run goes on.
    """
    from eigen2.cloud.bucket import Unreachable

    location = located(config.cloud)
    if location is None:
        return config, None
    cloud = opened(location, config.cloud, config.run.root)
    try:
        cloud.probe()
    except Unreachable as error:
        cloud.failure = str(error)
        say(f"cloud: {error} {TRIED_AGAIN}")
    return cloud.settled_in(config), cloud


def free_name(cloud: Cloud | None) -> Callable[[Path], bool]:
    """Says whether a new run may take the name of a directory, and takes it in the bucket if so: two machines that start
    at the same moment do not get the same one. Out of reach, every name is free."""
    if cloud is None or cloud.now is None:
        return lambda path: True
    now, taken = cloud.now, set(cloud.bucket.names())

    def claim(path: Path) -> bool:
        if path.name in taken:
            return False
        try:
            cloud.lease(Run(path)).acquire(now, same_place_is_dead=True)
        except ConfigError:
            return False
        return True

    return claim


@contextmanager
def uploading(run: Run, cloud: Cloud | None, console: Console) -> Iterator[dict[str, Any]]:
    """Inside, what an owned run commits goes up in the background; on the way out, the rest is sent.

    Yields facts for the result; they are complete when the context has ended.
    """
    from eigen2.cloud.pins import forget_other_places

    facts: dict[str, Any] = {}
    forget_other_places(run.path, None if cloud is None else cloud.url(run.name))
    if cloud is None:
        yield facts
        return
    with giving_back(cloud):
        uploader = _uploader(run, cloud, sayer(console))
        run.uploads = uploader
        try:
            yield facts
        finally:
            run.uploads = None
            facts |= _drained(uploader, run, cloud, console)


@contextmanager
def giving_back(cloud: Cloud | None) -> Iterator[None]:
    """On the way out a lease that is still held is given back, so that nobody waits for it to expire."""
    try:
        yield
    finally:
        if cloud is not None:
            cloud.give_back()


def check_same_run(run: Run, cloud: Cloud) -> None:
    """Refuse to write over another run, and over a later state of the same one."""
    from eigen2.cloud.image import parse_manifests, read_manifests
    from eigen2.cloud.pull import read_facts

    bucket, url = cloud.bucket, cloud.url(run.name)
    mine, found = run.identify(), read_facts(bucket, run.name)
    if found.get("id", mine) != mine:
        raise ConfigError(
            f"{url} holds another run, started {found.get('started')} on {found.get('host')}; "
            "give this one another run.name or cloud.url."
        )
    there = parse_manifests(read_manifests(bucket, run.name), Path(run.name) / "checkpoints")[0]
    remote = max((manifest.step for manifest in there.values()), default=-1)
    local = max((manifest.step for manifest in run.checkpoints.good().values()), default=-1)
    if remote > local and not cloud.fetched:
        raise ConfigError(
            f"{url} is at step {remote}, {run.path} only at step {max(local, 0)}; "
            f"`eigen2 sync pull {run.path}` brings it here, and nothing is lost."
        )


def _uploader(run: Run, cloud: Cloud, say: Say) -> "Uploader":
    from eigen2.cloud.bucket import Unreachable
    from eigen2.cloud.uploader import Uploader

    mirror, lease = cloud.mirror(run), cloud.lease(run)
    # Here, not when the server is back: run.json is written by one thread.
    run.identify()

    def begin() -> None:
        now = cloud.probe() if cloud.now is None else cloud.now
        check_same_run(run, cloud)
        if not lease.held:
            lease.acquire(now, same_place_is_dead=True)

    uploader = Uploader(mirror, lease, begin, lambda: fetch_rest(run, cloud, mirror, say), say)
    if cloud.failure is not None:
        uploader.begin_offline(cloud.failure)
        return uploader
    try:
        uploader.begin()
    except Unreachable as error:
        say(f"cloud: {error} {TRIED_AGAIN}")
        uploader.begin_offline(str(error))
    return uploader


def fetch_rest(run: Run, cloud: Cloud, mirror: "Mirror", say: Say) -> None:
    """What only the bucket has and a resume does not need: evaluations, and checkpoints to look at."""
    from eigen2.cloud.names import FACTS
    from eigen2.cloud.pull import Puller, look

    run.check_place()
    lacking = [
        n for n in TO_LOOK_AT if n in mirror.image.there.manifests and n not in run.checkpoints.names()
    ]
    if lacking or FACTS[-1] in mirror.image.there.sizes:
        puller = Puller(look(cloud.bucket, run.name), run.path, say)
        puller.evaluations()
        for name in lacking:
            puller.checkpoint(name)
        mirror.image.doubt(puller.damaged)


def _drained(uploader: "Uploader", run: Run, cloud: Cloud, console: Console) -> dict[str, Any]:
    url, seconds = cloud.url(run.name), cloud.settings.drain_seconds
    with StopSignals(seconds) as signals, transferring(console, f"uploading {run.name}") as show:
        left = uploader.drain(seconds, show, lambda: signals.received is not None)
    if left is None:
        _collect_garbage(run)
        sayer(console)(f"cloud: everything is in {url}")
        return {"cloud": {"url": url, "complete": True, "sent_bytes": uploader.mirror.image.sent_bytes}}
    sayer(console)(f"cloud: {left.words()} `eigen2 sync push {run.path}` sends it to {url}.")
    return {"cloud": {"url": url, "complete": False, "objects": left.objects, "bytes": left.bytes}}


def _collect_garbage(run: Run) -> None:
    """What was pinned until it was uploaded, and is superseded since."""
    if run.is_owned:
        run.checkpoints.collect_garbage()
        return
    # Whoever has gone on with the run meanwhile collects it.
    with suppress(ConfigError, RunGone):
        run.check_place()
        with RunLock(run.path):
            run.checkpoints.collect_garbage()


def expected_directory(root: Path, name: str) -> Path:
    """Where a run called `name` in a bucket lives below `root`; a name that could lead elsewhere is refused."""
    if "/" in name or name.startswith(".") or name in ("", "latest") or not name.isprintable():
        raise ConfigError(f"{name!r} cannot be the name of a run; name PREFIX/RUN in the bucket.")
    return root.absolute() / name
