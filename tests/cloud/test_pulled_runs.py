"""A run in a bucket is a stranger's: one sentence, the right exit code, and nothing outside its directory is touched."""

import hashlib
import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from command_lab import Done, Lab
from forgery import sealed
from machines import NAME, Machine, files, good, is_sentence
from servers import BUCKET, KEY, SECRET, Place, Served

from eigen2.cloud import pull
from eigen2.cloud.bucket import Corrupted, Entry
from eigen2.cloud.local import LocalBucket
from eigen2.cloud.location import parse
from eigen2.cloud.names import object_key
from eigen2.cloud.pull import Puller, look

Change = Callable[[Path], None]


def listing(directory: Path) -> list[str]:
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*"))


class Stranger:
    """A finished run in a directory that is a bucket, and an empty machine in a directory that is watched."""

    def __init__(self, lab: Lab, served: Served, finished: Path, watched: Path) -> None:
        assert served.stored is not None
        self.stored = Path(shutil.copytree(finished, served.stored / NAME))
        self.watched, self.machine = watched, Machine(lab, watched / "runs", served)
        self.machine.root.mkdir(parents=True)
        (watched / "outside").write_text("untouched")

    def pull(self) -> Done:
        return self._watched(lambda: self.machine.sync("pull", self.machine.url))

    def resume(self) -> Done:
        return self._watched(lambda: self.machine.resume(self.machine.url))

    def _watched(self, command: Callable[[], Done]) -> Done:
        done = command()
        assert "Traceback" not in done.out + done.err, done.err
        outside = [
            name for name in listing(self.watched) if not name.startswith(("runs/run/", "runs/latest"))
        ]
        assert set(outside) <= {"outside", "runs", "runs/run"}, outside
        assert (self.watched / "outside").read_text() == "untouched"
        return done


@pytest.fixture
def stranger(lab: Lab, place: Place, finished: Path, tmp_path: Path) -> Stranger:
    return Stranger(lab, place("local"), finished, tmp_path / "watched")


# Keys


HOSTILE = (
    "back\\slash",
    "dots.",
    "x" * 300,
    "uploads-0123456789ab.json",
    "lock",
    "objects/short",
)
ESCAPING = ("../escaped", "../../escaped", "a/../../escaped", "/absolute", "a//b", "./c", "..", "\ud800")


def test_keys_that_are_no_plain_names_become_no_files(
    place: Place, lab: Lab, finished: Path, tmp_path: Path
) -> None:
    import boto3

    served = place("moto")
    machine = Machine(lab, tmp_path / "watched" / "runs", served)
    machine.root.mkdir(parents=True)
    client = boto3.client(
        "s3", endpoint_url=f"http://{served.address}", aws_access_key_id=KEY, aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )  # fmt: skip
    prefix = served.url.removeprefix(f"s3://{BUCKET}/")
    for key, content in {
        **files(finished),
        **dict.fromkeys(HOSTILE, b"hostile"),
        "fine.txt": b"fine",
    }.items():
        client.put_object(Bucket=BUCKET, Key=f"{prefix}/{NAME}/{key}", Body=content)
    done = good(machine.sync("pull", machine.url))
    assert done.out.count("cannot be a file name and is left out") == 3, done.out
    assert "\x1b" not in done.out
    expected = {f"{NAME}/{key}" for key in files(finished)} - {f"{NAME}/objects.lock"} | {f"{NAME}/fine.txt"}
    assert files(machine.root).keys() == expected
    assert (machine.run / "lock").read_bytes() == b""

    # Such keys the client refuses to list at all.
    for key in ("../../escaped", "tab\tand\x1b[2J"):
        client.put_object(Bucket=BUCKET, Key=f"{prefix}/{NAME}/{key}", Body=b"hostile")
        assert "\x1b" not in is_sentence(machine.sync("pull", machine.url), 5)
        client.delete_object(Bucket=BUCKET, Key=f"{prefix}/{NAME}/{key}")
    assert files(machine.root).keys() == expected


class Lying(LocalBucket):
    """A directory whose listing shows more than there is."""

    more: tuple[str, ...] = ()

    def list(self, prefix: str = "") -> Iterator[Entry]:
        yield from super().list(prefix)
        for key in self.more:
            yield Entry(f"{prefix}{key}", 7, datetime.now(UTC))

    def read(self, key: str) -> Iterator[bytes]:
        if key.removeprefix(f"{NAME}/") in self.more:
            return iter([b"hostile"])
        return super().read(key)


def test_keys_that_lead_elsewhere_are_left_out_whatever_a_store_lists(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "bucket" / NAME)
    bucket = Lying(parse(f"file://{tmp_path / 'bucket'}"))
    bucket.more = ESCAPING
    before = listing(tmp_path)
    said: list[str] = []
    remote = look(bucket, NAME)
    assert not remote.files.keys() & set(ESCAPING)
    Puller(remote, tmp_path / "here" / "run", said.append).everything()
    assert len(said) == len(ESCAPING)
    assert all(sentence.isprintable() for sentence in said)
    new = {name for name in listing(tmp_path) if not name.startswith("here")} - set(before)
    assert new == set()
    assert files(tmp_path / "here" / "run") == {
        key: content for key, content in files(finished).items() if "lock" not in key
    }


def test_a_key_below_another_key_is_refused(finished: Path, tmp_path: Path) -> None:
    """Buckets hold `a` and `a/b` side by side; a file system does not."""
    shutil.copytree(finished, tmp_path / "bucket" / NAME)
    bucket = Lying(parse(f"file://{tmp_path / 'bucket'}"))
    for more in (("notes", "notes/x"), ("objects",), ("run.json/x",), ("tensorboard/a", "tensorboard")):
        bucket.more = more
        with pytest.raises(Corrupted, match="cannot become a file here"):
            Puller(
                look(bucket, NAME), tmp_path / more[0].replace("/", "-"), lambda sentence: None
            ).everything()


def test_more_bytes_than_listed_are_refused(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(finished, tmp_path / "bucket" / NAME)
    bucket = Lying(parse(f"file://{tmp_path / 'bucket'}"))
    bucket.more = ("endless",)
    monkeypatch.setattr(pull, "GROWTH", 1 << 20)
    endless = itertools.repeat(bytes(1 << 16))
    plain_read = LocalBucket.read
    monkeypatch.setattr(
        Lying, "read", lambda self, key: endless if key.endswith("endless") else plain_read(self, key)
    )
    with pytest.raises(Corrupted, match="cannot become a file here"):
        Puller(look(bucket, NAME), tmp_path / "here", lambda sentence: None).everything()
    assert not (tmp_path / "here" / "endless").exists()
    assert not (tmp_path / "here" / "config.yaml").exists()


# Manifests


def rewrite(run: Path, change: Callable[[dict[str, Any]], None], *roles: str) -> None:
    """Change manifests and give them a true checksum."""
    for role in roles or ("latest", "final", "previous"):
        path = run / "checkpoints" / f"{role}.json"
        body = json.loads(path.read_bytes())["body"]
        change(body)
        path.write_bytes(sealed(body))


def first_object(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["objects"][min(body["objects"])]
    return found


def large_object(run: Path) -> None:
    """The bucket's object is longer than the manifest says, and the listing as well."""
    for path in (run / "objects").rglob("*"):
        if path.is_file():
            with open(path, "ab") as file:
                file.write(b"more")


def state_of(run: Path, content: bytes) -> None:
    """Another tree of the state, under its true name."""
    name = hashlib.sha256(content).hexdigest()
    path = run / object_key(name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    rewrite(run, lambda body: body["objects"]["state/tree.json"].update(hash=name, size=len(content)))


def overwrite_manifests(run: Path, content: bytes) -> None:
    for path in (run / "checkpoints").iterdir():
        path.write_bytes(content)


MANIFESTS: dict[str, Change] = {
    "a log outside": lambda run: rewrite(run, lambda body: body["logs"].update({"../../outside": 0})),
    "a negative size": lambda run: rewrite(run, lambda body: first_object(body).update(size=-1)),
    "a size in words": lambda run: rewrite(run, lambda body: first_object(body).update(size="12")),
    "a huge size": lambda run: rewrite(run, lambda body: first_object(body).update(size=10**18)),
    "a size beyond all": lambda run: rewrite(run, lambda body: first_object(body).update(size=10**40)),
    "a hash that is a path": lambda run: rewrite(run, lambda body: first_object(body).update(hash="../" * 20 + "outside")),
    "objects that are a list": lambda run: rewrite(run, lambda body: body.update(objects=[1, 2])),
    "a step in words": lambda run: rewrite(run, lambda body: body.update(step="ten")),
    "another name": lambda run: rewrite(run, lambda body: body.update(name="../../outside")),
    "a field nobody knows": lambda run: rewrite(run, lambda body: body.update(execute="rm")),
    "no format": lambda run: rewrite(run, lambda body: body.pop("format")),
    "format 1 without its fields": lambda run: rewrite(run, lambda body: body.update(format=1)),
    "longer objects": large_object,
    "no objects": lambda run: shutil.rmtree(run / "objects"),
    "no JSON": lambda run: overwrite_manifests(run, b"\xff\xfe[[["),
    "deep JSON": lambda run: overwrite_manifests(run, b"[" * 10**6),
}  # fmt: skip


@pytest.mark.parametrize("change", MANIFESTS)
def test_a_manifest_with_a_true_checksum_is_no_reason_to_believe_it(change: str, stranger: Stranger) -> None:
    MANIFESTS[change](stranger.stored)
    is_sentence(stranger.resume(), 5)
    assert not stranger.machine.run.exists() or not (stranger.machine.run / "config.yaml").exists()
    assert not (stranger.stored / "lease.json").exists()


STATES: dict[str, tuple[int, Change]] = {
    "state that is no JSON": (5, lambda run: state_of(run, b"{")),
    "state without end": (5, lambda run: state_of(run, b"[" * 100_000)),
    "state of another kind": (5, lambda run: state_of(run, b"[1, 2]")),
    "state that names nothing": (5, lambda run: state_of(run, b'{"a": {"$tensor": "nothing"}}')),
    "replay of nothing": (5, lambda run: rewrite(run, lambda body: body.update(replay={"format": 1}))),
    "replay of everything": (5, lambda run: rewrite(run, lambda body: body["replay"].update(capacity=10**15))),
    "replay with paths": (5, lambda run: rewrite(run, lambda body: body["replay"].update(parts={"ring": [[0, 1, "../../outside", 1]]}))),
    "identity of nothing": (2, lambda run: rewrite(run, lambda body: body.update(identity={}))),
    "identity of another kind": (5, lambda run: rewrite(run, lambda body: body.update(identity={"data": 5, "config": [], "version": []}))),
}  # fmt: skip


@pytest.mark.parametrize("change", STATES)
def test_a_state_that_cannot_be_is_refused_when_it_is_loaded(change: str, stranger: Stranger) -> None:
    code, alter = STATES[change]
    alter(stranger.stored)
    is_sentence(stranger.resume(), code)
    assert not (stranger.stored / "lease.json").exists()


# Facts


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    return "\n".join(lines)


FACTS: dict[str, tuple[int, str, bytes]] = {
    "a YAML bomb": (5, "config.yaml", bomb().encode()),
    "python in YAML": (5, "config.yaml", b"alg: !!python/object/apply:os.system ['touch outside']"),
    "deep YAML": (5, "config.yaml", b"[" * 100_000),
    "a huge config": (5, "config.yaml", b"# comment\n" * 200_000),
    "a config that is none": (5, "config.yaml", b"42"),
    "a number without end": (5, "config.yaml", b"seed: " + b"9" * 10_000),
    "a date that is none": (5, "config.yaml", b"seed: 2001-99-99"),
    "binary": (5, "config.yaml", b"\x00\xff\xfe"),
    "a deep run.json": (5, "run.json", b'{"resumes": ' + b"[" * 200_000),
    "a huge run.json": (5, "run.json", b'{"a": "' + b"x" * (5 << 20) + b'"}'),
    "a run.json of another kind": (0, "run.json", b'{"resumes": 5, "steps": [], "status": {}}'),
    "an id that is none": (2, "run.json", b'{"id": {"a": 1}}'),
    "a list for a run.json": (5, "run.json", b"[1, 2, 3]"),
    "evaluations of nothing": (0, "evaluations.jsonl", b'{"series": {"a": ' + b"1" * 64 + b'}}\n{"series": {"a": "../../outside"}}\n'),
    "series that are none": (0, "evaluations.jsonl", b'{"series": [1]}\n{"series": {"a": [1]}}\n'),
    "evaluations that are none": (5, "evaluations.jsonl", b"[" * 100_000 + b"\n5\n"),
    "metrics that are none": (0, "metrics.jsonl", b"\xff" * 1000),
}  # fmt: skip


@pytest.mark.parametrize("change", FACTS)
def test_facts_that_are_none(change: str, stranger: Stranger) -> None:
    code, name, content = FACTS[change]
    (stranger.stored / name).write_bytes(content)
    done = stranger.resume()
    if code:
        is_sentence(done, code)
    else:
        good(done)
    assert len(done.err) < 3000
    assert not (stranger.stored / "lease.json").exists()
    good(stranger.machine.lab.run("runs", "--root", stranger.machine.root))


def test_tails_with_gaps_are_left_out(stranger: Stranger, finished: Path) -> None:
    """One goes on where its log ends, one leaves a gap, one repeats, two are no tails."""
    log = stranger.stored / "metrics.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[:100])
    (stranger.stored / "tails").mkdir()
    for offset, content in ((50, whole[50:200]), (10_000_000, b"gap"), (0, whole[:10]), (200, whole[200:])):
        (stranger.stored / "tails" / f"metrics.jsonl.{offset:012d}").write_bytes(content)
    (stranger.stored / "tails" / "config.yaml.000000000000").write_bytes(b"hostile")
    (stranger.stored / "tails" / "metrics.jsonl.12").write_bytes(b"hostile")
    good(stranger.pull())
    assert (stranger.machine.run / "metrics.jsonl").read_bytes() == whole
    assert (stranger.machine.run / "config.yaml").read_bytes() == (finished / "config.yaml").read_bytes()
    good(stranger.machine.lab.run("verify", stranger.machine.run))
