"""`eigen2 sync push|pull|status`, and a run that comes from a bucket to an empty machine."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eigen2.cloud.words import size_words
from eigen2.errors import ConfigError
from eigen2.harness.directory import check_latest, find_run, point_latest
from eigen2.harness.identity import check_stored_config
from eigen2.harness.lock import RunLock
from eigen2.harness.progress import Say, sayer, transferring
from eigen2.harness.run import Run
from eigen2.harness.syncing import (
    Cloud,
    check_same_run,
    expected_directory,
    fetch_rest,
    giving_back,
    located,
    opened,
)
from eigen2.harness.trust import check_place, remember_place
from eigen2.store.durable import make_directory

if TYPE_CHECKING:
    from eigen2.cloud.pull import Pulled, Remote
    from eigen2.config import CloudConfig


def is_url(name: str) -> bool:
    return "://" in name


def fetch_run(url: str, root: Path, settings: "CloudConfig", console: Console) -> tuple[Run, Cloud]:
    """The run at `url` in a directory below `root`, with what its newest checkpoint needs; its lease is taken."""
    from eigen2.cloud.pull import Puller

    cloud, run = _remote_run(url, root, settings)
    now, say = cloud.probe(), sayer(console)
    with ExitStack() as held, _locked(run), transferring(console, f"pulling {run.name}") as show:
        remote = _further(cloud, run, url)
        held.enter_context(giving_back(cloud))
        lease = cloud.lease(run)
        lease.acquire(now, same_place_is_dead=True)
        lease.keep(lambda sentence: None)
        if remote is None:
            say(f"{run.path} is up to date with {url}.")
        else:
            puller = Puller(remote, run.path, say, show)
            pulled = puller.newest()
            say(_words(pulled, url))
            # The checkpoints beside it stay in the bucket for now; `verify` does not miss them.
            run.note(fetched=pulled.step)
            cloud.damaged = frozenset(puller.damaged)
        held.pop_all()
        cloud.fetched = True
    point_latest(run.path)
    return run, cloud


def pull_run(url: str, root: Path, settings: "CloudConfig", console: Console) -> dict[str, Any]:
    """Everything the bucket holds of a run."""
    from eigen2.cloud.pull import Puller, look

    cloud, run = _remote_run(url, root, settings)
    with _locked(run), transferring(console, f"pulling {run.name}") as show:
        if _further(cloud, run, url, or_equal=True) is None:
            raise ConfigError(
                f"{run.path} is ahead of {url}; nothing is pulled over it. `eigen2 sync push {run.path}` sends it "
                "up, or --root names another place."
            )
        pulled = Puller(look(cloud.bucket, run.name), run.path, sayer(console), show).everything()
    point_latest(run.path)
    remember_place(cloud.location, sayer(console))
    sayer(console)(_words(pulled, url))
    return {
        "run": str(run.path),
        "url": url,
        "step": pulled.step,
        "objects": pulled.objects,
        "bytes": pulled.bytes,
    }


def push_run(run: Run, cloud: Cloud, console: Console, verify: bool = False) -> dict[str, Any]:
    """Everything of a run that the bucket lacks; also while it trains without a cloud."""
    with run.held():
        # One that no resume would take must not replace the good one in the bucket.
        check_stored_config(run)
        return _push(run, cloud, console, verify)


def _push(run: Run, cloud: Cloud, console: Console, verify: bool) -> dict[str, Any]:
    from eigen2.cloud.pace import Abandoned

    now, url, mirror, lease = cloud.probe(), cloud.url(run.name), cloud.mirror(run), cloud.lease(run)
    check_same_run(run, cloud)
    say = sayer(console)
    with _locked_if_free(run) as free, giving_back(cloud):
        lease.acquire(now, same_place_is_dead=free)
        lease.keep(lambda sentence: mirror.stop.set())
        fetch_rest(run, cloud, mirror, say)
        try:
            with transferring(console, f"pushing {run.name}") as show:
                mirror.progress.watch = show
                for name in mirror.image.damaged_objects(mirror.threads) if verify else ():
                    say(f"object {name[:16]}... is damaged in the bucket and is sent again")
                batches = [mirror.send(everything=True, before_manifests=lambda: lease.confirm(0))]
                while not batches[-1].newest:
                    batches.append(mirror.send(everything=True, before_manifests=lambda: lease.confirm(0)))
            lease.confirm(0)
            mirror.collect_garbage(now=True)
        except Abandoned:
            # Raises the sentence that says who has it.
            lease.confirm(0)
            raise
    sent = batches[-1]
    for sentence in (*sent.damaged, *sent.skipped):
        say(sentence)
    return {
        "run": str(run.path), "url": url, "step": sent.step, "objects": sum(batch.objects for batch in batches),
        "files": sum(batch.files for batch in batches), "bytes": sum(batch.bytes for batch in batches),
        "already": sent.already, "seconds": round(sum(batch.seconds for batch in batches), 3),
        "damaged": list(sent.damaged),
    }  # fmt: skip


def sync_facts(run: Run, cloud: Cloud, console: Console, verify: bool = False) -> dict[str, Any]:
    """What the bucket holds of a run, beside what is here."""
    from eigen2.cloud.lease import read_holder

    mirror = cloud.mirror(run)
    there = mirror.image.there
    objects, count = mirror.waiting()
    local = {name: manifest.step for name, manifest in run.checkpoints.good().items()}
    remote = {name: manifest.step for name, manifest in mirror.remote_manifests().items()}
    holder = read_holder(cloud.bucket, run.name)
    facts: dict[str, Any] = {
        "run": str(run.path), "url": cloud.url(run.name), "local": local, "remote": remote,
        "missing_objects": objects, "missing_bytes": count, "missing_files": mirror.files.missing(),
        "remote_bytes": sum((*there.objects.values(), *there.unproven.values(), *there.sizes.values())),
        "lease": None if holder is None else holder.words(),
    }  # fmt: skip
    if verify:
        with transferring(console, f"reading {run.name}") as show:
            mirror.progress.watch = show
            facts["damaged"] = sorted(mirror.image.damaged_objects(mirror.threads))
    facts["complete"] = (
        not (objects or facts["missing_files"] or facts.get("damaged")) and mirror.same_manifests()
    )
    return facts


def status_text(facts: dict[str, Any]) -> str:
    steps = {
        where: ", ".join(f"{n} {s}" for n, s in facts[where].items()) or "none"
        for where in ("local", "remote")
    }
    lines = [
        f"here    {facts['run']}: {steps['local']}",
        f"bucket  {facts['url']}: {steps['remote']}; {size_words(facts['remote_bytes'])}",
    ]
    if facts["lease"]:
        lines.append(f"lease   {facts['lease']}")
    if facts["complete"]:
        return "\n".join([*lines, "everything that is here is in the bucket"])
    if facts["missing_objects"] or facts["missing_files"]:
        lines.append(
            f"only here: {facts['missing_objects']} objects ({size_words(facts['missing_bytes'])}), "
            f"files: {', '.join(facts['missing_files']) or 'none'}"
        )
    lines += [f"damaged in the bucket: object {name}" for name in facts.get("damaged", ())]
    return "\n".join([*lines, f"`eigen2 sync push {facts['run']}` completes it"])


def pull_named(name: str, root: Path, console: Console) -> dict[str, Any]:
    """`sync pull`, given a url or a run that is here."""
    from eigen2.config import CloudConfig

    if is_url(name):
        return pull_run(name, root, CloudConfig(), console)
    run = find_run(name, root)
    cloud = cloud_of(run, None)
    return pull_run(cloud.url(run.name), run.path.parent, cloud.settings, console)


def push_text(facts: dict[str, Any]) -> str:
    if not (facts["objects"] or facts["files"]):
        return f"{facts['url']} has everything already"
    return (
        f"{facts['url']}: {facts['objects']} new objects and {facts['files']} files, {size_words(facts['bytes'])} "
        f"uploaded in {facts['seconds']:.1f} s; {facts['already']} objects were there already"
    )


def cloud_of(run: Run, url: str | None, say: Say = lambda sentence: None) -> Cloud:
    """Where a run is synced: `url` when given, else what its config or the environment says."""
    settings = run.read_config(to_open=False).cloud
    location = located(settings if url is None else settings.model_copy(update={"url": url}))
    if location is None:
        raise ConfigError(f"{run.path} has no cloud; name one with --to, e.g. --to gs://BUCKET/PREFIX.")
    if url is None:
        check_place(location, run)
    else:
        remember_place(location, say)
    return opened(location, settings, run.path.parent)


def _remote_run(url: str, root: Path, settings: "CloudConfig") -> tuple[Cloud, Run]:
    from eigen2.cloud.location import parse

    above, name = parse(url).split()
    check_latest(root)
    return opened(above, settings, root), Run(expected_directory(root, name))


def _further(cloud: Cloud, run: Run, url: str, or_equal: bool = False) -> "Remote | None":
    """What the bucket holds, if it is further than the directory here; None when it is not."""
    from eigen2.cloud.pull import look

    remote = look(cloud.bucket, run.name)
    if not remote.files:
        raise ConfigError(f"{url} does not exist: the bucket holds no run called {run.name}.")
    if not run.config_file.is_file():
        return remote
    theirs, ours = remote.facts().get("id"), run.metadata().get("id")
    if theirs != ours:
        raise ConfigError(
            f"{run.path} is another run than {url}; name another place with --log-dir or --root."
        )
    local = max((manifest.step for manifest in run.checkpoints.good().values()), default=-1)
    step = -1 if remote.step is None else remote.step
    return remote if step > local or (or_equal and step == local) else None


@contextmanager
def _locked(run: Run) -> Iterator[None]:
    """The directory of a run that may not exist yet, for nobody else."""
    existed = run.path.exists()
    make_directory(run.path)
    try:
        with RunLock(run.path):
            yield
    finally:
        # A pull that was refused leaves nothing behind.
        if not existed and not any(path.name != "lock" for path in run.path.iterdir()):
            (run.path / "lock").unlink(missing_ok=True)
            run.path.rmdir()


@contextmanager
def _locked_if_free(run: Run) -> Iterator[bool]:
    """Whether nobody trains the run; then nobody begins to, inside."""
    try:
        lock = RunLock(run.path)
        lock.__enter__()
    except ConfigError:
        yield False
        return
    try:
        yield True
    finally:
        lock.__exit__(None, None, None)


def _words(pulled: "Pulled", url: str) -> str:
    step = "no checkpoint yet" if pulled.step is None else f"step {pulled.step}"
    return f"{step} of {url}: {pulled.objects} objects, {size_words(pulled.bytes)} downloaded"
