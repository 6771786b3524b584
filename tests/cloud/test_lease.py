"""One machine at a time works on a run in a bucket, and no run is written over another."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from command_lab import ORDERS, Lab, Moment, story
from machines import NAME, Machine, files, good, is_sentence, until
from rich.console import Console
from servers import Place, Served

from eigen2.cloud.bucket import Bucket, Source
from eigen2.cloud.lease import Lease, LeaseLost, read_holder
from eigen2.cloud.local import LocalBucket
from eigen2.cloud.location import parse
from eigen2.config import CloudConfig
from eigen2.errors import ConfigError
from eigen2.harness.run import Run
from eigen2.harness.sync import push_run
from eigen2.harness.syncing import Cloud

STRANGER = {
    "token": "theirs", "host": "elsewhere", "pid": 41, "directory": "/runs/run", "seconds": 120.0,
    "kernel": "another system", "started": 1.0,
}  # fmt: skip


def lease_file(served: Served, name: str = NAME) -> Path:
    assert served.stored is not None
    return served.stored / name / "lease.json"


def test_two_machines_do_not_work_on_one_run(place: Place, lab: Lab, finished: Path, tmp_path: Path) -> None:
    served = place("local")
    first, second = Machine(lab, tmp_path / "first", served), Machine(lab, tmp_path / "second", served)
    go = tmp_path / "go"
    alive = first.begin(moments=(Moment("stepped", "wait", 2, path=str(go)),))
    until(lambda: lease_file(served).with_name("checkpoints").joinpath("latest.json").exists())
    said = is_sentence(second.resume(second.url), 2)
    assert f"{NAME} is being worked on by process {alive.pid} on" in said
    assert str(first.run) in said
    assert list(second.root.iterdir()) == []
    assert "is being worked on by" in is_sentence(first.sync("push", first.run), 2)
    assert "is in use by" in is_sentence(first.resume(), 2)
    assert str(first.run) in json.loads(good(first.sync("status", first.run, "--json")).out)["lease"]

    alive.signal(signal.SIGKILL)
    alive.wait()
    assert lease_file(served).exists()
    good(second.resume(second.url))
    assert story(second.run) == story(finished)
    assert not lease_file(served).exists()
    # The first machine is behind now, and is told how to go on.
    said = is_sentence(first.resume(), 2)
    assert "is at step 3" in said
    assert f"`eigen2 sync pull {first.run}` brings it here" in said
    good(first.sync("pull", first.run))
    good(first.resume())
    assert story(first.run) == story(finished)
    assert not lease_file(served).exists()


def test_the_lease_of_another_host_holds_until_it_expires_by_the_clock_of_the_server(
    place: Place, lab: Lab, finished: Path, tmp_path: Path
) -> None:
    served = place("local")
    assert served.stored is not None
    shutil.copytree(finished, served.stored / NAME)
    lease_file(served).write_text(json.dumps(STRANGER))
    second = Machine(lab, tmp_path / "second", served)
    said = is_sentence(second.resume(second.url), 2)
    assert "is being worked on by process 41 on elsewhere (/runs/run)" in said
    assert list(second.root.iterdir()) == []
    past = time.time() - STRANGER["seconds"] - 1  # type: ignore[operator]
    os.utime(lease_file(served), (past, past))
    good(second.resume(second.url))
    assert not lease_file(served).exists()


def test_a_lease_that_is_lost_ends_the_uploads_and_not_the_training(
    place: Place, lab: Lab, finished: Path, tmp_path: Path
) -> None:
    served = place("local")
    machine, go = Machine(lab, tmp_path / "runs", served), tmp_path / "go"
    started = machine.begin(moments=(Moment("stepped", "wait", 2, path=str(go)),))
    latest = lease_file(served).with_name("checkpoints") / "latest.json"
    until(lambda: latest.exists() and json.loads(latest.read_bytes())["body"]["step"] == 1)
    lease_file(served).write_text(json.dumps(STRANGER))
    go.touch()
    done = good(started.wait())
    sentence = (
        f"{NAME} was taken over by process 41 on elsewhere (/runs/run); nothing more is uploaded from here."
    )
    assert done.out.count(f"cloud: {sentence}") == 1, done.out
    assert "are only here" in done.out.splitlines()[-1]
    assert story(machine.run) == story(finished)
    assert json.loads(latest.read_bytes())["body"]["step"] < 3
    assert json.loads(lease_file(served).read_text()) == STRANGER


def test_a_name_that_another_machine_has_taken_gets_a_number(place: Place, lab: Lab, tmp_path: Path) -> None:
    served = place("local")
    assert served.stored is not None
    words = (*ORDERS, f"cloud.url={served.url}")
    stop = (Moment("stepped", "SIGTERM", 1),)
    for root in ("first", "second"):
        assert lab.run("train", *words, f"run.root={tmp_path / root}", moments=stop).code == 75
    (name,) = (path.name for path in (tmp_path / "first").iterdir() if not path.is_symlink())
    assert (tmp_path / "second" / f"{name}-2").is_dir()
    assert sorted(path.name for path in served.stored.iterdir()) == [name, f"{name}-2"]


def test_another_run_of_the_same_name_is_not_written_over(
    place: Place, lab: Lab, finished: Path, tmp_path: Path
) -> None:
    served = place("local")
    assert served.stored is not None
    first, second = Machine(lab, tmp_path / "first", served), Machine(lab, tmp_path / "second", served)
    for machine in (first, second):
        shutil.copytree(finished, machine.run)
    facts = json.loads((second.run / "run.json").read_text())
    (second.run / "run.json").write_text(json.dumps(facts | {"id": "0" * 32}))
    good(first.sync("push", first.run, "--to", served.url))
    before = files(served.stored)
    said = is_sentence(second.sync("push", second.run, "--to", served.url), 2)
    assert "holds another run, started" in said
    assert "is another run than" in is_sentence(second.sync("pull", second.url), 2)
    assert files(served.stored) == before
    assert not lease_file(served).exists()


def test_evaluations_of_two_machines_add_up(place: Place, lab: Lab, finished: Path, tmp_path: Path) -> None:
    """A use of the holdout is never forgotten, whoever made it."""
    served = place("local")
    assert served.stored is not None
    first, second = Machine(lab, tmp_path / "first", served), Machine(lab, tmp_path / "second", served)
    shutil.copytree(finished, first.run)
    good(first.sync("push", first.run, "--to", served.url))
    good(second.sync("pull", second.url))
    for machine in (first, second):
        good(lab.run("evaluate", machine.run, "--split", "holdout"))
        good(machine.sync("push", machine.run, "--to", served.url))
    good(first.sync("pull", first.url))
    stored = served.stored / NAME
    lines = {
        run: sorted((run / "evaluations.jsonl").read_text().splitlines())
        for run in (first.run, second.run, stored)
    }
    assert lines[first.run] == lines[second.run] == lines[stored]
    assert len(lines[stored]) == 3
    for run in (first.run, second.run):
        good(lab.run("verify", run))


# The lease by itself, in a directory that is a bucket.


@pytest.fixture
def there(tmp_path: Path) -> Bucket:
    return LocalBucket(parse(f"file://{tmp_path / 'bucket'}"))


def lease(bucket: Bucket, directory: str = "/here/run") -> Lease:
    return Lease(bucket, NAME, Path(directory), 60.0)


def test_the_lock_of_the_directory_proves_that_its_old_lease_is_nobodys(there: Bucket) -> None:
    now = datetime.now(UTC)
    killed, next_one = lease(there), lease(there)
    killed.acquire(now, same_place_is_dead=True)
    with pytest.raises(ConfigError, match="is being worked on"):
        next_one.acquire(now, same_place_is_dead=False)
    with pytest.raises(ConfigError, match="is being worked on"):
        lease(there, "/there/run").acquire(now, same_place_is_dead=True)
    next_one.acquire(now, same_place_is_dead=True)
    with pytest.raises(LeaseLost, match="taken over"):
        killed.confirm(0)
    killed.release()
    assert read_holder(there, NAME) == next_one.me
    next_one.release()
    assert read_holder(there, NAME) is None


def test_a_lease_that_somebody_removed_is_taken_again(there: Bucket) -> None:
    mine = lease(there)
    mine.acquire(datetime.now(UTC), same_place_is_dead=True)
    there.delete(mine.key)
    mine.confirm(0)
    assert read_holder(there, NAME) == mine.me


@pytest.mark.parametrize(
    "text",
    [
        b"", b"null", b"[" * 4000, b'"' + b"x" * 3000 + b'"', b'{"pid": -5, "started": 1' + b"0" * 400 + b"}",
        b'{"host": "a\\u001b[2Jb", "directory": [1, 2], "seconds": -1}', b'{"seconds": 1e308, "pid": true}', b"\xff\xfe",
    ],
)  # fmt: skip
def test_a_lease_that_cannot_be_read_is_somebodys_until_it_expires(there: Bucket, text: bytes) -> None:
    there.put(f"{NAME}/lease.json", text)
    now = datetime.now(UTC)
    with pytest.raises(ConfigError, match="is being worked on") as refused:
        lease(there).acquire(now, same_place_is_dead=True)
    assert str(refused.value).isprintable()
    lease(there).acquire(now + timedelta(days=2), same_place_is_dead=True)


def test_a_process_that_has_ended_holds_nothing(there: Bucket) -> None:
    mine = lease(there)
    facts: dict[str, Any] = vars(mine.me) | {"token": "other", "directory": "/there/run"}
    child = os.fork()
    if child == 0:
        os._exit(0)
    # Ended, and not yet waited for.
    until(lambda: Path(f"/proc/{child}/stat").read_text().split()[2] == "Z")
    there.put(mine.key, json.dumps(facts | {"pid": child, "started": time.time()}).encode())
    mine.acquire(datetime.now(UTC), same_place_is_dead=False)
    os.waitpid(child, 0)
    there.put(mine.key, json.dumps(facts | {"pid": os.getpid()}).encode())
    with pytest.raises(ConfigError, match="is being worked on"):
        lease(there).acquire(datetime.now(UTC), same_place_is_dead=False)


class Taken(LocalBucket):
    """A directory in which somebody else takes the lease while objects are put."""

    def put(
        self, key: str, source: Source | bytes, spend: Callable[[int], None] = lambda count: None
    ) -> None:
        super().put(key, source, spend)
        if "/objects/" in key:
            super().put(f"{NAME}/lease.json", json.dumps(STRANGER).encode())


def test_a_push_that_loses_its_lease_puts_no_manifest(finished: Path, tmp_path: Path) -> None:
    run = Run(Path(shutil.copytree(finished, tmp_path / NAME)))
    location = parse(f"file://{tmp_path / 'bucket'}")
    with pytest.raises(LeaseLost, match="was taken over by process 41 on elsewhere"):
        push_run(run, Cloud(location, Taken(location), CloudConfig()), Console(quiet=True))
    stored = files(tmp_path / "bucket" / NAME)
    assert any(key.startswith("objects/") for key in stored)
    assert not any(key.startswith("checkpoints/") for key in stored)
    assert json.loads(stored["lease.json"]) == STRANGER
    assert files(run.path / "checkpoints") == files(finished / "checkpoints")
