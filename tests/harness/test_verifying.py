"""`verify` proves every byte that a run names, says what is missing, and never calls damage what a kill leaves."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import pytest
from command_lab import ORDERS, Lab, Moment

from eigen2.errors import DamagedStateError
from eigen2.harness.run import Run
from eigen2.harness.verifying import verify_run
from eigen2.store.seals import sealed_record

LOCKS = ("lock", "objects.lock")


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(finished, tmp_path / "mine")))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def files(run: Run) -> list[Path]:
    return [path for path in sorted(run.path.rglob("*")) if path.is_file() and path.name not in LOCKS]


def test_a_finished_run_holds(run: Run) -> None:
    report = verify_run(run)
    assert report.ok, report
    assert report.unproven == ()
    assert report.unread == 0


def test_a_flipped_bit_in_any_file_is_found_and_named(run: Run) -> None:
    for path in files(run):
        content = path.read_bytes()
        for position in {0, len(content) // 3, len(content) // 2, len(content) - 1} if content else ():
            flip(path, position)
            report = verify_run(run)
            assert any(str(path) in sentence for sentence in (*report.damaged, *report.missing)), (
                path,
                position,
            )
            path.write_bytes(content)
    assert verify_run(run).ok


@pytest.mark.parametrize("series", [{"x": 5}, {"x": "../../../etc/passwd"}, {"x": ["a"]}, {"x": None}, 7])
def test_an_evaluation_whose_series_can_be_no_objects_does_not_end_a_verification_or_a_repair(
    lab: Lab, run: Run, series: object
) -> None:
    line = json.dumps(sealed_record({**run.evaluations()[0], "series": series}))
    with run.log("evaluations").open("a") as log:
        log.write(line + "\n")
    assert verify_run(run).ok
    assert lab.run("repair", run.path).code == 0
    (run.path / "run.json").unlink()
    assert lab.run("repair", run.path).code == 5


def test_a_damaged_evaluation_makes_no_hash_of_a_line_an_object_that_is_missing(run: Run) -> None:
    flip(run.log("evaluations"), 0)
    report = verify_run(run)
    assert len(report.damaged) == 1
    assert report.missing == ()


def test_an_object_of_another_length_is_refused_without_being_read(
    run: Run,
) -> None:
    """A file full of holes may be longer than anyone can wait for."""
    checkpoint = run.checkpoints.load("latest")
    name = checkpoint.manifest.objects["state/tree.json"].hash
    path = run.checkpoints.objects.path(name)
    content = path.read_bytes()
    os.truncate(path, 1 << 43)
    for look in (checkpoint.verify, lambda: run.checkpoints.newest_good(), lambda: verify_run(run)):
        with contextlib.suppress(DamagedStateError):
            look()
    assert any("8,796,093,022,208 bytes long" in sentence for sentence in verify_run(run).damaged)
    run.checkpoints.objects.put(content)
    assert verify_run(run).ok


def test_every_missing_file_is_named(run: Run) -> None:
    for path in files(run):
        if path.name == "evaluations.jsonl" or (path.suffix == ".jsonl" and not path.stat().st_size):
            continue
        content = path.read_bytes()
        path.unlink()
        report = verify_run(run)
        assert any(str(path) in sentence for sentence in (*report.missing, *report.damaged)), path
        path.write_bytes(content)


def test_a_log_that_is_shorter_than_its_checkpoint_says_is_damage_and_a_longer_one_is_not(run: Run) -> None:
    path = run.log("metrics")
    content = path.read_bytes()
    path.write_bytes(content + b'{"step": 99}\n{"to')
    assert verify_run(run).ok
    path.write_bytes(content[:-1])
    assert any("bytes, checkpoint" in sentence for sentence in verify_run(run).damaged)


def test_a_run_without_a_checkpoint_is_not_every_hash_holds(lab: Lab, run: Run) -> None:
    shutil.rmtree(run.path / "checkpoints")
    done = lab.run("verify", run.path)
    assert done.code == 5
    assert "no checkpoint" in done.err


def test_a_sample_says_what_it_did_not_read(lab: Lab, run: Run) -> None:
    facts = lab.run("verify", run.path, "--sample", "10%", "--json").json
    assert facts["ok"]
    assert 0 < facts["unread"] < facts["objects"]
    assert "were not read" in lab.run("verify", run.path, "--sample", "10%").out
    assert lab.run("verify", run.path, "--sample", "0").code == 2
    # Presence and length are looked at, whatever the sample.
    for name in list(run.checkpoints.objects.list()):
        path = run.checkpoints.objects.path(name)
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        assert not verify_run(run, sample=1e-9).ok
        path.write_bytes(content)


def test_a_resume_with_other_operating_keys_a_move_and_an_evaluation_are_no_damage(
    lab: Lab, run: Run
) -> None:
    moved = run.path.with_name("moved")
    run.path.rename(moved)
    assert lab.run("evaluate", moved).code == 0
    assert verify_run(Run(moved)).ok
    assert lab.run("train", "--resume", moved, "alg.generations=4", "memory.verbose=1").code == 0
    report = verify_run(Run(moved))
    assert report.ok, report
    assert report.unproven == ()


@pytest.mark.parametrize("operation", [3, 11, 23, 37, 55, 80])
def test_what_a_kill_leaves_holds(lab: Lab, tmp_path: Path, operation: int) -> None:
    done = lab.run(
        "train", *ORDERS, f"run.root={tmp_path}", "run.name=mine",
        moments=(Moment("operation", "SIGKILL", operation),),
    )  # fmt: skip
    run = Run(tmp_path / "mine")
    assert done.killed
    report = verify_run(run)
    if run.checkpoints.names():
        assert report.ok, report


def test_damage_beside_the_state_is_said_by_a_resume_and_mended(lab: Lab, run: Run) -> None:
    flip(run.path / "best_agent.safetensors", 300)
    flip(run.log("metrics"), 5)
    done = lab.run("train", "--resume", run.path, "alg.generations=4", "--json")
    assert done.code == 0, done.err
    assert "best_agent.safetensors is damaged" in done.err
    assert "metrics.jsonl is not as the checkpoint left it" in done.err
    assert verify_run(run).ok
    assert any("best_agent" in sentence for sentence in json.loads(run.metadata_file.read_text())["damage"])


def test_a_copy_without_its_newest_checkpoint_says_what_a_resume_goes_on_from(lab: Lab, run: Run) -> None:
    """As a copy of a bucket whose upload was cut short: manifests are sent last, and were replaced one by one."""
    for name in ("latest", "final"):
        run.checkpoints.path(name).unlink(missing_ok=True)
    older = run.checkpoints.load("previous").manifest.step
    done = lab.run("verify", run.path)
    assert done.code == 5
    assert len(done.err.splitlines()) == 1
    assert f"a resume continues from 'previous' of step {older}" in done.err
    assert lab.run("train", "--resume", run.path).code == 0
    assert lab.run("verify", run.path).code == 0
