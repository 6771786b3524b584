"""A run directory from a stranger: nothing outside of it is written, cut or deleted."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_lab import Lab
from forgery import Forgery

from eigen2.cloud.local import LocalBucket
from eigen2.cloud.location import parse
from eigen2.errors import DamagedStateError
from eigen2.harness.directory import find_run
from eigen2.harness.listing import list_runs
from eigen2.harness.run import Run
from eigen2.store.aside import keep_aside
from eigen2.store.durable import append, open_log

FILES = (
    "config.yaml", "run.json", "lock", "objects.lock", "metrics.jsonl", "events.jsonl", "lineage.jsonl", "memory.jsonl",
    "evaluations.jsonl", "best_agent.safetensors", "report.html", "film.webp", "phase.json",
)  # fmt: skip
DIRECTORIES = ("objects", "checkpoints", "tails", "damaged", "evaluations")


@pytest.fixture
def stranger(finished: Path, tmp_path: Path) -> Path:
    """A copy of a finished run, as if it had been unpacked here."""
    return Path(shutil.copytree(finished, tmp_path / "runs" / "stranger"))


@pytest.fixture
def victim(tmp_path: Path, finished: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "victim"))


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def linked(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("name", [*FILES, *DIRECTORIES])
def test_a_run_of_which_a_part_is_a_link_is_refused_and_nothing_behind_the_link_changes(
    stranger: Path, victim: Path, name: str
) -> None:
    for directory in DIRECTORIES:
        (victim / directory).mkdir(exist_ok=True)
    before = contents(victim)
    linked(stranger / name, victim / name)
    with pytest.raises(DamagedStateError, match="symbolic link"):
        find_run(str(stranger), stranger.parent)
    with pytest.raises(DamagedStateError, match="symbolic link"), Run(stranger).owned():
        pass
    assert contents(victim) == before
    assert [found["state"] for found in list_runs(stranger.parent)] in (["damaged"], [])


@pytest.mark.parametrize("command", [("train", "--resume"), ("evaluate",), ("verify",), ("export",)])
def test_the_sentence_about_a_linked_part_ends_a_command_with_5(
    lab: Lab, stranger: Path, victim: Path, command: tuple[str, ...]
) -> None:
    linked(stranger / "objects", victim / "objects")
    before = contents(victim)
    done = lab.run(*command, stranger)
    assert done.code == 5, done.err
    assert len(done.err.strip().splitlines()) == 1
    assert "objects is a symbolic link" in done.err
    assert contents(victim) == before


def test_that_the_run_directory_or_its_root_is_a_link_is_the_users_choice(
    lab: Lab, stranger: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").symlink_to(stranger.parent)
    (tmp_path / "mine").symlink_to(stranger)
    assert lab.run("evaluate", tmp_path / "elsewhere" / "stranger").code == 0
    assert lab.run("evaluate", tmp_path / "mine").code == 0


def test_a_linked_directory_of_objects_leads_to_no_deletion_elsewhere(stranger: Path, victim: Path) -> None:
    before = contents(victim)
    Forgery(stranger).put(b"an orphan that garbage collection would delete")
    for directory in sorted((stranger / "objects").iterdir()):
        linked(directory, victim / "objects" / directory.name)
    with pytest.raises(DamagedStateError, match="symbolic link"), Run(stranger).owned():
        pass
    objects = Run(stranger).checkpoints.objects
    for key in before:
        if key.startswith("objects/"):
            with pytest.raises(DamagedStateError, match="symbolic link"):
                objects.delete(key.removeprefix("objects/").replace("/", ""))
    assert contents(victim) == before


def test_a_directory_that_is_called_like_a_temporary_file_is_in_nobodys_way(stranger: Path) -> None:
    places = [stranger / place / ".incoming-x" for place in (".", "objects", "checkpoints")]
    for place in places:
        place.mkdir()
    with Run(stranger).owned():
        pass
    assert all(place.is_dir() for place in places)


def test_a_repair_keeps_nothing_through_a_link_below_damaged(
    lab: Lab, stranger: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (stranger / "damaged").mkdir()
    (stranger / "damaged" / "checkpoints").symlink_to(outside)
    best = stranger / "checkpoints" / "best.json"
    best.write_bytes(best.read_bytes() + b" ")
    done = lab.run("repair", stranger)
    assert done.code == 5, done.err
    assert done.err.count("\n") == 1
    assert "checkpoints is a symbolic link" in done.err
    assert not list(outside.iterdir())


def test_a_link_in_the_place_of_what_is_kept_is_not_followed(stranger: Path, tmp_path: Path) -> None:
    (stranger / "damaged").mkdir()
    (stranger / "damaged" / "run.json").symlink_to(tmp_path / "outside.json")
    kept = keep_aside(stranger, stranger / "run.json")
    assert kept == stranger / "damaged" / "run.json.2"
    assert kept.read_bytes() == (stranger / "run.json").read_bytes()
    assert not (tmp_path / "outside.json").exists()


@pytest.mark.parametrize(
    "name", ["../victim/metrics", "/tmp/x", "evaluations", "config", "metrics.jsonl", "", "a\0b"]
)
def test_a_checkpoint_that_names_another_log_is_damaged(stranger: Path, victim: Path, name: str) -> None:
    before = contents(victim) | contents(stranger)
    Forgery(stranger).forge(lambda body: body["logs"].update({name: 0}))
    with pytest.raises(DamagedStateError, match="no checkpoint .* can be used.*logs"):
        Run(stranger).checkpoints.newest_good()
    assert contents(stranger)["evaluations.jsonl"] == before["evaluations.jsonl"]


def test_cutting_and_appending_change_no_file_that_has_a_second_name(tmp_path: Path) -> None:
    victim, log = tmp_path / "victim", tmp_path / "metrics.jsonl"
    victim.write_bytes(b"precious\n")
    os.link(victim, log)
    with open_log(log) as file:
        file.truncate(0)
    assert (victim.read_bytes(), log.read_bytes()) == (b"precious\n", b"")
    log.unlink()
    os.link(victim, log)
    append(log, b"more\n")
    assert (victim.read_bytes(), log.read_bytes()) == (b"precious\n", b"precious\nmore\n")


def test_a_lock_that_is_another_file_under_a_second_name_is_not_written(
    stranger: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "precious"
    victim.write_text("precious")
    (stranger / "lock").unlink(missing_ok=True)
    os.link(victim, stranger / "lock")
    with pytest.raises(DamagedStateError, match="is not a lock file"), Run(stranger).owned():
        pass
    assert victim.read_text() == "precious"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def directory(path: Path) -> None:
    path.mkdir()


def unix_socket(path: Path) -> None:
    place = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{place}/{path.name}")
    os.close(place)


@pytest.mark.parametrize("make", [pipe, device, directory, unix_socket])
def test_what_is_no_plain_file_is_refused_at_once_wherever_it_stands(
    stranger: Path, make: Callable[[Path], None]
) -> None:
    run = Run(stranger)
    newest = run.checkpoints.load("latest").manifest
    ref = next(iter(newest.objects.values()))
    run.checkpoints.objects.path(ref.hash).unlink()
    make(run.checkpoints.objects.path(ref.hash))
    for read in (run.checkpoints.objects.read, run.checkpoints.objects.check):
        with pytest.raises(DamagedStateError, match="not a plain file"):
            read(ref.hash)
    manifest = run.checkpoints.path("latest")
    manifest.unlink()
    make(manifest)
    with pytest.raises(DamagedStateError, match="not a plain file"):
        run.checkpoints.newest_good()
    readings: list[tuple[str, Callable[[], Any]]] = [
        ("metrics.jsonl", lambda: list_runs(stranger.parent)),
        ("evaluations.jsonl", run.evaluations),
        ("run.json", run.metadata),
        ("config.yaml", run.raw_config),
    ]
    for name, reading in readings:
        (stranger / name).unlink()
        make(stranger / name)
        if name == "metrics.jsonl":
            assert reading()[0]["state"] == "damaged"
        else:
            with pytest.raises(DamagedStateError, match="not a plain file"):
                reading()


def test_a_directory_that_is_a_bucket_is_read_and_written_through_no_link(tmp_path: Path) -> None:
    bucket = LocalBucket(parse(f"file://{tmp_path / 'bucket'}"))
    (tmp_path / "bucket" / "run").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (tmp_path / "bucket" / "run" / "objects").symlink_to(tmp_path / "outside")
    (tmp_path / "bucket" / "run" / "metrics.jsonl").symlink_to(tmp_path / "outside" / "secret")
    with pytest.raises(DamagedStateError, match="symbolic link"):
        bucket.put("run/objects/new", b"content")
    with pytest.raises(DamagedStateError, match="symbolic link"):
        list(bucket.read("run/metrics.jsonl"))
    with pytest.raises(DamagedStateError, match="symbolic link"):
        list(bucket.list("run/"))
    assert contents(tmp_path / "outside") == {"secret": b"secret"}


def test_an_export_goes_through_no_link_of_the_run_but_through_the_users_own(
    lab: Lab, stranger: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (stranger / "export").symlink_to(outside)
    done = lab.run("export", stranger)
    assert done.code == 5, done.err
    assert list(outside.iterdir()) == []
    (tmp_path / "chosen").symlink_to(outside)
    done = lab.run("export", stranger, "--to", tmp_path / "chosen")
    assert done.code == 0, done.err
    assert (outside / "export.json").is_file()


def test_a_tail_that_is_one_long_hole_is_refused_before_it_is_read(lab: Lab, stranger: Path) -> None:
    log = stranger / "metrics.jsonl"
    before = log.read_bytes()
    (stranger / "tails").mkdir()
    tail = stranger / "tails" / f"metrics.jsonl.{len(before):012d}"
    with tail.open("wb") as file:
        file.truncate(16 << 30)
    done = lab.run("train", "--resume", stranger, "alg.generations=4", cpu_seconds=30)
    assert done.code == 5, done.err
    assert f"{tail} is 17,179,869,184 bytes long" in done.err
    assert log.read_bytes() == before
