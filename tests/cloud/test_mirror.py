"""What goes up, what stays here, and what is never deleted."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_lab import Lab, Moment
from machines import NAME, Machine, files, good, until
from servers import Place

from eigen2.cloud.bucket import Source
from eigen2.cloud.local import LocalBucket
from eigen2.cloud.location import parse
from eigen2.cloud.mirror import Mirror
from eigen2.cloud.names import object_key, object_name
from eigen2.harness.run import Run
from eigen2.store.manifest import from_bytes, to_bytes


class Counting(LocalBucket):
    """A directory that notes what is put and read."""

    def __init__(self, directory: Path) -> None:
        super().__init__(parse(f"file://{directory}"))
        self.put_keys: list[str] = []

    def put(
        self, key: str, source: Source | bytes, spend: Callable[[int], None] = lambda count: None
    ) -> None:
        super().put(key, source, spend)
        self.put_keys.append(key.removeprefix(f"{NAME}/"))

    def took(self) -> list[str]:
        """What was put since the last call."""
        found, self.put_keys = sorted(self.put_keys), []
        return found


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "runs" / NAME))


@pytest.fixture
def bucket(tmp_path: Path) -> Counting:
    (tmp_path / "bucket").mkdir()
    return Counting(tmp_path / "bucket")


def mirror(run: Path, bucket: Counting, *exclude: str) -> Mirror:
    return Mirror(run, bucket, NAME, "file:///somewhere", exclude=exclude)


def test_what_people_open_goes_up_when_it_changed(run: Path, bucket: Counting, tmp_path: Path) -> None:
    (run / "tensorboard" / "a").mkdir(parents=True)
    (run / "tensorboard" / "a" / "events").write_bytes(b"events")
    (run / "report.html").write_text("report")
    (run / "prices größe 100%.txt").write_text("odd, and fine")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (run / "link").symlink_to(tmp_path / "outside" / "secret")
    (run / "linked").symlink_to(tmp_path / "outside")
    os.mkfifo(run / "pipe")
    (run / "not\nplain").write_text("x")
    Path(os.fsdecode(os.fsencode(run) + b"/\xff\xfe")).write_text("x")
    (run / ".incoming-1234").write_text("a killed writer's")
    image = mirror(run, bucket)
    sent = image.send(everything=True)
    assert len(sent.skipped) == 2, sent.skipped
    assert all("cannot be a name in a bucket" in sentence for sentence in sent.skipped)
    there = files(tmp_path / "bucket" / NAME)
    here = {
        key: content
        for key, content in files(run).items()
        if key.isprintable() and not key.startswith((".incoming", "uploads-"))
    }
    assert there == here
    assert "tensorboard/a/events" in there
    assert "prices größe 100%.txt" in there
    assert image.files.missing() == []
    bucket.took()

    # Nothing changed; then one file did; then one was written again without a change of its content.
    assert image.send(everything=True).bytes == 0
    assert mirror(run, bucket).send(everything=True).bytes == 0
    (run / "report.html").write_text("another report")
    (run / "tensorboard" / "a" / "events").write_bytes(b"EVENTS")
    assert bucket.took() == []
    assert mirror(run, bucket).send().files == 2
    assert bucket.took() == ["report.html", "tensorboard/a/events"]
    (run / "report.html").write_text("a third report")
    # Within a minute of the last copy only facts and new ends of logs are sent.
    assert image.send().bytes == 0
    assert image.send(everything=True).files == 2
    assert bucket.took() == ["report.html", "tensorboard/a/events"]
    (run / "report.html").unlink()
    assert image.send(everything=True).bytes == 0


def test_patterns_keep_files_here_and_never_the_facts(run: Path, bucket: Counting, tmp_path: Path) -> None:
    (run / "tensorboard").mkdir()
    (run / "tensorboard" / "events").write_bytes(b"events")
    (run / "report.html").write_text("report")
    (run / "notes.txt").write_text("notes")
    mirror(run, bucket, "tensorboard/", "*.html", "*.json*", "*.yaml").send(everything=True)
    there = files(tmp_path / "bucket" / NAME)
    assert {"config.yaml", "run.json", "evaluations.jsonl", "notes.txt"} <= there.keys()
    assert not {"report.html", "tensorboard/events", "metrics.jsonl"} & there.keys()


def test_nothing_is_left_in_the_bucket_that_nobody_names(run: Path, bucket: Counting, tmp_path: Path) -> None:
    """A manifest that somebody else put there is believed, whatever it names."""
    image = mirror(run, bucket)
    image.send(everything=True)
    garbage, theirs, orphan = (f"{number:064x}" for number in (1, 2, 3))
    for name in (garbage, theirs, orphan):
        bucket.put(f"{NAME}/{object_key(name)}", name.encode())
    manifest = from_bytes((run / "checkpoints" / "init.json").read_bytes(), run / "checkpoints" / "init.json")
    foreign = to_bytes(manifest).replace(next(iter(manifest.objects.values())).hash.encode(), theirs.encode())
    bucket.put(f"{NAME}/checkpoints/best.json", foreign)
    with open(tmp_path / "bucket" / NAME / "evaluations.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"series": {"theirs": orphan}}) + "\n")
    another = mirror(run, bucket)
    assert another.collect_garbage(now=True) >= 1
    there = {object_name(key) for key in files(tmp_path / "bucket" / NAME)}
    assert garbage not in there
    assert {theirs, orphan} <= there
    kept = files(tmp_path / "bucket" / NAME)
    for role in ("init", "previous", "latest", "final"):
        path = tmp_path / "bucket" / NAME / "checkpoints" / f"{role}.json"
        for ref in from_bytes(path.read_bytes(), path).objects.values():
            assert object_key(ref.hash) in kept


def test_a_batch_of_the_past_never_takes_the_bucket_back(run: Path, bucket: Counting, tmp_path: Path) -> None:
    """A machine was killed with a batch on its way; another went on from an older state and further."""
    old = {name: (run / "checkpoints" / f"{name}.json").read_bytes() for name in ("previous",)}
    image = mirror(run, bucket)
    image.send(everything=True)
    newest = Run(run).checkpoints.load("latest").manifest
    image.pins.write({"latest": old["previous"].replace(b'"previous"', b'"latest"')})
    # Something that the newest state needs is missing in the bucket, and the old batch lacks nothing.
    missing = next(iter({r.hash for r in newest.objects.values()} - pinned(image)))
    (tmp_path / "bucket" / NAME / object_key(missing)).unlink()
    again = mirror(run, bucket)
    assert again.send(everything=True).newest
    stored = json.loads((tmp_path / "bucket" / NAME / "checkpoints" / "latest.json").read_bytes())
    assert stored["body"]["step"] == newest.step
    assert (tmp_path / "bucket" / NAME / object_key(missing)).exists()


def pinned(image: Mirror) -> set[str]:
    return {
        ref["hash"]
        for text in image.pins.read().values()
        for ref in json.loads(text)["body"]["objects"].values()
    }


def test_a_run_that_trains_without_a_cloud_is_pushed_and_pushed_again(
    place: Place, lab: Lab, tmp_path: Path
) -> None:
    served = place("local")
    assert served.stored is not None
    machine, go = Machine(lab, tmp_path / "runs", served), tmp_path / "go"
    alive = machine.begin("cloud.url=off", moments=(Moment("stepped", "wait", 2, path=str(go)),))
    until(lambda: (machine.run / "checkpoints" / "previous.json").exists())
    first = good(machine.sync("push", machine.run, "--to", served.url, "--json")).json
    assert first["step"] == 1
    assert first["objects"]
    second = good(machine.sync("push", machine.run, "--to", served.url, "--json")).json
    assert (second["objects"], second["files"], second["bytes"]) == (0, 0, 0)
    go.touch()
    good(alive.wait())
    third = good(machine.sync("push", machine.run, "--to", served.url, "--json")).json
    assert third["step"] == 3
    assert "has everything already" in good(machine.sync("push", machine.run, "--to", served.url)).out
    assert files(served.stored / NAME) == files(machine.run)
