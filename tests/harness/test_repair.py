"""Damage costs as little as it must: `repair` fetches, rebuilds, drops, in this order, and says what it did."""

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_lab import Lab

from eigen2.errors import ConfigError, ResourceError
from eigen2.harness.repair import repair_run
from eigen2.harness.run import Run
from eigen2.harness.verifying import verify_run


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(finished, tmp_path / "mine")))


def flip(path: Path, position: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[position if position >= 0 else len(content) // 2] ^= 0x10
    path.write_bytes(content)


def flip_object(run: Run, name: str, logical: str) -> Path:
    refs = run.checkpoints.load(name).manifest.objects
    path = run.checkpoints.objects.path(next(ref.hash for n, ref in refs.items() if n.startswith(logical)))
    flip(path)
    return path


def shared_segment(run: Run) -> Path:
    """A replay object that previous, latest and final name."""
    manifests = [run.checkpoints.load(name).manifest for name in ("previous", "latest", "final")]
    names = set.intersection(*({r.hash for r in m.below("replay/").values()} for m in manifests))
    records = {entry[2] for entry in (manifests[0].replay or {})["parts"]["records"]}
    return run.checkpoints.objects.path(min(names & records))


def mended(run: Run, source: Path | str | None = None) -> dict[str, Any]:
    facts = repair_run(run, None if source is None else str(source), lambda sentence: None)
    report = verify_run(run)
    assert report.ok, report
    return facts


def test_evaluation_fingerprint_and_export_need_no_replay(lab: Lab, run: Run, tmp_path: Path) -> None:
    whole = lab.run("fingerprint", run.path)
    segment = shared_segment(run)
    flip(segment)
    assert lab.run("train", "--resume", run.path, "alg.generations=4").code == 5
    assert lab.run("evaluate", run.path).code == 0
    assert lab.run("export", run.path, "--to", tmp_path / "out").code == 0
    done = lab.run("fingerprint", run.path)
    assert (done.code, done.out) == (0, whole.out)
    assert str(segment) in done.err
    assert lab.run("fingerprint", run.path, "--json").json["damaged"]


def test_a_whole_run_is_left_alone(lab: Lab, run: Run) -> None:
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    done = lab.run("repair", run.path)
    assert (done.code, "nothing is damaged" in done.out) == (0, True)
    assert {path: path.read_bytes() for path in before} == before
    assert not (run.path / "damaged").exists()


def test_a_shared_segment_costs_its_transitions_and_the_run_says_so_ever_after(lab: Lab, run: Run) -> None:
    segment = shared_segment(run)
    flip(segment)
    damaged = segment.read_bytes()
    done = lab.run("repair", run.path, "--json")
    assert done.code == 5, done.err
    assert any("transitions were lost" in sentence for sentence in done.json["lost"])
    assert verify_run(run).ok
    assert (run.path / "damaged" / segment.relative_to(run.path)).read_bytes() == damaged
    assert run.metadata()["exact"] is False
    proof = lab.run("verify-resume", run.path)
    assert (proof.code, "nothing to prove before the next one" in proof.err) == (2, True), proof.err
    resumed = lab.run("train", "--resume", run.path, "alg.generations=5")
    assert resumed.code == 0, resumed.err
    assert "it is not exact" in resumed.out
    report = verify_run(run)
    assert report.ok
    assert any("it is not exact" in sentence for sentence in report.inexact)
    assert '"kind":"repair"' in run.log("events").read_text()
    for command in ("verify-resume", "fingerprint", "evaluate"):
        said = lab.run(command, run.path)
        assert said.code == 0
        assert "it is not exact" in said.err
    assert "it is not exact" in lab.run("verify", run.path).out


def test_a_copy_gives_everything_back(run: Run, finished: Path) -> None:
    whole = {p.relative_to(run.path): p.read_bytes() for p in run.path.rglob("*") if p.is_file()}
    for path in sorted(p for p in run.path.rglob("*") if p.is_file() and not p.name.endswith("lock")):
        if path.stat().st_size:
            flip(path)
    facts = mended(run, finished)
    assert facts["lost"] == []
    assert facts["ok"]
    for name, content in whole.items():
        if name.name not in ("lock", "run.json"):
            assert (run.path / name).read_bytes() == content, name
    assert json.loads(whole[Path("run.json")]).items() >= {"status": "done"}.items()
    assert run.metadata()["exact"] is True


def test_objects_that_are_not_there_come_from_a_bucket(lab: Lab, run: Run, tmp_path: Path) -> None:
    bucket = f"file://{tmp_path / 'bucket'}"
    assert lab.run("sync", "push", run.path, "--to", bucket).code == 0
    shutil.rmtree(run.path / "objects")
    done = lab.run("repair", run.path, "--from", f"{bucket}/{run.name}", "--json")
    assert done.code == 0, done.err
    assert verify_run(run).ok
    assert lab.run("verify-resume", run.path).code == 0


def test_another_run_is_refused_as_a_copy(run: Run, tmp_path: Path, finished: Path) -> None:
    other = Run(Path(shutil.copytree(finished, tmp_path / "other")))
    flip(shared_segment(run))
    run.note(id="1" * 32)
    other.note(id="2" * 32)
    with pytest.raises(ConfigError, match="another run"):
        repair_run(run, str(other.path), lambda sentence: None)
    with pytest.raises(ConfigError, match="the run itself"):
        repair_run(run, str(run.path), lambda sentence: None)


def test_a_newest_state_that_is_lost_costs_a_step_and_no_bit(lab: Lab, run: Run, finished: Path) -> None:
    flip_object(run, "latest", "state/tree")
    facts = mended(run)
    assert facts["lost"] == []
    assert run.checkpoints.names() == ["init", "best", "latest"]
    done = lab.run("train", "--resume", run.path)
    assert done.code == 0, done.err
    assert "not exact" not in done.out
    assert lab.run("fingerprint", run.path).out == lab.run("fingerprint", finished).out


@pytest.mark.parametrize("name", ["final", "latest", "previous"])
@pytest.mark.parametrize("gone", [False, True])
def test_a_manifest_comes_back_from_its_sibling(lab: Lab, run: Run, name: str, gone: bool) -> None:
    path = run.checkpoints.path(name)
    path.unlink() if gone else flip(path)
    before = lab.run("fingerprint", run.path).out
    facts = mended(run)
    assert facts["lost"] == []
    assert lab.run("fingerprint", run.path).out == before
    assert set(run.checkpoints.names()) >= {"init", "best", "latest", "final"}


def test_all_resumable_states_lost_go_on_from_the_best(lab: Lab, run: Run) -> None:
    for name in ("latest", "previous", "final"):
        run.checkpoints.path(name).unlink()
    facts = mended(run)
    assert any("it is not exact" in sentence for sentence in facts["lost"])
    assert lab.run("evaluate", run.path).code == 0


def test_damaged_logs_keep_their_good_lines(lab: Lab, run: Run) -> None:
    metrics, events = run.log("metrics"), run.log("events")
    lines = metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(lines[0] + b"\0" * (len(lines[1]) - 1) + b"\n" + lines[2])
    events.write_bytes(events.read_bytes()[:-7])
    facts = mended(run)
    assert any("metrics.jsonl" in sentence for sentence in facts["lost"])
    assert metrics.read_bytes() == lines[0] + lines[2]
    assert lab.run("train", "--resume", run.path, "alg.generations=4").code == 0
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == [1, 3, 4]
    assert verify_run(run).ok


def test_config_facts_and_best_agent_are_made_again(lab: Lab, run: Run, finished: Path) -> None:
    run.config_file.unlink()
    run.metadata_file.write_bytes(b"\0" * 100)
    flip(run.path / "best_agent.safetensors")
    facts = mended(run)
    assert any("best_agent" in sentence for sentence in facts["rebuilt"])
    assert (run.path / "best_agent.safetensors").read_bytes() == (
        finished / "best_agent.safetensors"
    ).read_bytes()
    assert lab.run("train", "--resume", run.path, "alg.generations=4").code == 0


def test_a_lost_series_and_a_damaged_evaluation_are_said(lab: Lab, run: Run) -> None:
    assert lab.run("evaluate", run.path).code == 0
    (series, *_) = run.evaluations()[0]["series"].values()
    run.checkpoints.objects.path(series).unlink()
    path = run.log("evaluations")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b"0", b"1", 1))
    facts = mended(run)
    assert any("series" in sentence for sentence in facts["lost"])
    assert any("damaged lines" in sentence for sentence in facts["lost"])
    assert len(run.evaluations()) == 1


def test_a_live_run_is_refused(lab: Lab, run: Run) -> None:
    from eigen2.harness.lock import RunLock

    flip(shared_segment(run))
    with RunLock(run.path):
        done = lab.run("repair", run.path)
    assert done.code == 2
    assert "is in use by" in done.err


def test_a_full_disk_ends_a_repair_with_one_sentence_and_the_next_one_ends_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip(shared_segment(run))
    with monkeypatch.context() as patched:
        patched.setattr("eigen2.harness.mending.Mending.commit", _no_room)
        with pytest.raises(ResourceError, match="could not be fully repaired .*nothing of it is lost"):
            repair_run(run, None, lambda sentence: None)
    mended(run)


def _no_room(mending: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_the_first_state_is_computed_again(lab: Lab, run: Run) -> None:
    """Later states share parts of it: one damaged object can be in every checkpoint."""
    for ref in set(run.checkpoints.load("init").manifest.objects.values()):
        flip(run.checkpoints.objects.path(ref.hash))
    facts = mended(run)
    assert facts["lost"] == []
    assert run.checkpoints.names() == ["init", "best", "previous", "latest", "final"]
    assert lab.run("verify-resume", run.path).code == 0


def test_a_run_that_cannot_be_mended_keeps_its_checkpoints_and_is_never_begun_anew(
    lab: Lab, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(run: Run) -> None:
        raise ConfigError("the plug-in is not installed")

    monkeypatch.setattr("eigen2.harness.mending.beginning", gone)
    names = run.checkpoints.names()
    for name in names:
        refs = run.checkpoints.load(name).manifest.objects
        run.checkpoints.objects.path(refs["state/tree.json"].hash).write_bytes(b"nonsense")
    facts = repair_run(run, None, lambda sentence: None)
    assert not facts["ok"]
    assert run.checkpoints.names() == names
    assert lab.run("train", "--resume", run.path).code == 5


def test_a_copy_that_is_not_exact_is_not_taken_while_an_exact_checkpoint_is_here(
    lab: Lab, run: Run, finished: Path, tmp_path: Path
) -> None:
    copy = Run(Path(shutil.copytree(finished, tmp_path / "copy")))
    flip(shared_segment(copy))
    assert not mended(copy, None)["ok"]
    said = copy.checkpoints.load("latest").manifest.inexact
    for name in ("latest", "final"):
        flip(run.checkpoints.path(name))
    facts = mended(run, copy.path)
    assert (facts["ok"], run.metadata()["exact"]) == (True, True)
    assert run.checkpoints.load("latest").manifest.inexact == ()
    # The end of the run is not what is left of it.
    assert "final" not in run.checkpoints.names()
    for name in ("latest", "final", "previous"):
        run.checkpoints.path(name).unlink(missing_ok=True)
    facts = mended(run, copy.path)
    assert (facts["ok"], run.metadata()["exact"]) == (False, False)
    assert set(said) <= set(facts["lost"])
