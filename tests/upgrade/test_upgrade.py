"""A run outlives the version that made it: runs of every released format resume, evaluate and verify.

`make.py` made the runs beside this file and what their own version would have computed next.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_lab import ROUNDING, Lab, Moment

from eigen2.config import retired
from eigen2.harness.identity import ROUNDED

RUNS = sorted(path for path in Path(__file__).parent.glob("format*/*") if path.is_dir())
RENAMED = {"champion": "best_score"}
"""Metrics of format 1 that have another name now."""
ROLLBACK = {"alg.rollback=True": "rollback_to", "alg.go_back=True": "went_back_to"}
"""A mechanism that is gone, and the metric that said when it had changed the weights."""


@pytest.fixture(params=RUNS, ids=lambda path: f"{path.parent.name}-{path.name}")
def stored(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def run(stored: Path, tmp_path: Path) -> Path:
    return Path(
        shutil.copytree(stored, tmp_path / stored.name, ignore=shutil.ignore_patterns("expected.json"))
    )


def expected(stored: Path) -> Any:
    return json.loads((stored / "expected.json").read_text(encoding="utf-8"))


def went_on_without(stored: Path) -> list[str]:
    """Mechanisms that the run was trained with and that are no longer there."""
    return [
        f"{key}={value}"
        for key, value in retired(yaml.safe_load((stored / "config.yaml").read_text("utf-8"))).items()
    ]


def comparable(expected_steps: list[Any], gone: list[str]) -> list[Any]:
    """The steps that the run computes as its own version would have: until a mechanism that is gone would have acted."""
    if not all(mechanism in ROLLBACK for mechanism in gone):
        return []
    changed = [number for number, step in enumerate(expected_steps) if set(ROLLBACK.values()) & step.keys()]
    return expected_steps[: changed[0] + 1] if changed else expected_steps


def test_it_resumes_and_computes_what_its_own_version_would_have_or_says_what_is_gone(
    lab: Lab, stored: Path, run: Path
) -> None:
    before, gone = expected(stored), went_on_without(stored)
    done = lab.run("train", "--resume", run)
    assert done.code == 0, done.err
    for mechanism in gone:
        assert f"{mechanism}, with which this run was trained, is no longer there" in done.out
    sentences = lab.run("fingerprint", run, "--json").json.get("inexact", [])
    # Generated prices may be rounded differently on the processor that runs the tests.
    assert [sentence.split(",")[0] for sentence in sentences if sentence != ROUNDED] == gone
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len(steps) == len(before["metrics"]) == 4
    for ours, theirs in zip(steps[2:], comparable(before["metrics"][2:], gone), strict=False):
        named = {RENAMED.get(name, name): value for name, value in theirs.items()}
        assert ours == pytest.approx({name: named[name] for name in ours}, rel=ROUNDING, abs=1e-6)
    assert lab.run("verify", run).code == 0
    assert lab.run("verify-resume", run).code == 0


@pytest.mark.parametrize("operation", [2, 7, 13, 29])
def test_a_kill_while_it_is_taken_over_loses_nothing(lab: Lab, tmp_path: Path, operation: int) -> None:
    stored = Path(__file__).parent / "format1" / "erl_orders"
    run = Path(shutil.copytree(stored, tmp_path / "mine", ignore=shutil.ignore_patterns("expected.json")))
    killed = lab.run("train", "--resume", run, moments=(Moment("operation", "SIGKILL", operation),))
    assert killed.killed
    assert lab.run("verify", run).code == 0
    assert lab.run("train", "--resume", run).code == 0
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["fitness_best"] == pytest.approx(
        expected(stored)["metrics"][-1]["fitness_best"], rel=ROUNDING
    )


def test_it_is_evaluated_verified_and_looked_into_as_it_is(lab: Lab, stored: Path, run: Path) -> None:
    before = {
        path: path.read_bytes() for path in run.rglob("*") if path.is_file() and "checkpoints" in path.parts
    }
    for command in (
        ("evaluate",),
        ("verify",),
        ("fingerprint",),
        ("replay", "info"),
        ("replay", "verify"),
        ("memory",),
    ):
        done = lab.run(*command, run)
        assert done.code == 0, (command, done.err)
    proof = lab.run("verify-resume", run)
    if went_on_without(stored):
        assert proof.code == 2
        assert "which version" in proof.err
    else:
        # The runs do not say on which processor they were computed; one that rounds like it proves them.
        assert proof.code == 0 or (proof.code == 2 and "computed on an unknown processor" in proof.err), (
            proof.err
        )
    listed = lab.run("runs", "--root", run.parent, "--json").json
    assert [(found["name"], found["step"], found["state"]) for found in listed] == [(run.name, 2, "stopped")]
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("name", ["format1/erl_gym", "format2/erl_weights", "format3/erl_parity"])
def test_a_report_is_made_of_it(lab: Lab, tmp_path: Path, name: str) -> None:
    stored = Path(__file__).parent / name
    run = Path(shutil.copytree(stored, tmp_path / "mine", ignore=shutil.ignore_patterns("expected.json")))
    done = lab.run("report", run)
    assert done.code == 0, done.err
    assert (run / "report.html").stat().st_size > 10_000


def test_its_config_is_proven_too(lab: Lab, run: Path) -> None:
    text = (run / "config.yaml").read_text(encoding="utf-8")
    (run / "config.yaml").write_text(text.replace("seed: 7", "seed: 8", 1), encoding="utf-8")
    for command in (("train", "--resume"), ("evaluate",)):
        done = lab.run(*command, run)
        assert done.code == 2
        assert "config.yaml is not the one" in done.err


def test_a_key_that_is_newer_than_a_run_takes_its_default(lab: Lab, finished: Path, tmp_path: Path) -> None:
    """A made-up key: a run of a version that did not know `env.fee_bp` was computed with its default."""
    run = Path(shutil.copytree(finished, tmp_path / "mine"))
    _forget(run, "fee_bp")
    assert lab.run("train", "--resume", run, "alg.generations=4").code == 0
    refused = lab.run("train", "--resume", run, "env.fee_bp=3.5")
    assert refused.code == 2
    assert "env.fee_bp: 10.0 -> 3.5" in refused.err


def test_a_rule_that_is_newer_than_a_run_is_not_applied_to_it(
    lab: Lab, finished: Path, tmp_path: Path
) -> None:
    """Targets of close-only prices used to be filled at the close that reached them; new runs fill them the day after."""
    run = Path(shutil.copytree(finished, tmp_path / "mine"))
    assert lab.run("train", "--show-config", "--json").json["config"]["env"]["target_fill"] == "next_day"
    _forget(run, "target_fill")
    refused = lab.run("train", "--resume", run, "env.target_fill=next_day")
    assert refused.code == 2
    assert "env.target_fill: same_close -> next_day" in refused.err
    assert lab.run("train", "--resume", run, "env.target_fill=same_close", "alg.generations=4").code == 0


def test_a_config_of_a_later_version_is_refused_by_a_sentence_with_both_versions(
    lab: Lab, finished: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "mine"))
    _rewrite(
        run, lambda identity: identity | {"version": "9.9", "config": {**identity["config"], "novelty": 1}}
    )
    done = lab.run("train", "--resume", run)
    assert done.code == 5
    assert "9.9" in done.err
    assert "novelty" in done.err


@pytest.mark.parametrize(
    ("key", "idle", "used"),
    [("collect", "closed_loop", "open_loop"), ("recent_window", 0, 64), ("actor_ema", 0.0, 0.9)],
)
def test_a_run_goes_on_without_a_mechanism_that_is_gone_and_says_so(
    lab: Lab, tmp_path: Path, key: str, idle: Any, used: Any
) -> None:
    """These were choices of format 3."""
    stored = Path(__file__).parent / "format3" / "pwm_mlp"
    run = Path(shutil.copytree(stored, tmp_path / "mine", ignore=shutil.ignore_patterns("expected.json")))
    text = (run / "config.yaml").read_text(encoding="utf-8")
    assert f"{key}: {idle}\n" in text
    (run / "config.yaml").write_text(text.replace(f"{key}: {idle}\n", f"{key}: {used}\n"), encoding="utf-8")

    def trained_with_it(identity: dict[str, Any]) -> dict[str, Any]:
        config = identity["config"]
        return identity | {"config": {**config, "alg": {**config["alg"], key: used}}}

    _rewrite(run, trained_with_it)
    assert lab.run("evaluate", run).code == 0
    done = lab.run("train", "--resume", run)
    assert done.code == 0, done.err
    sentence = f"alg.{key}={used}, with which this run was trained, is no longer there"
    assert sentence in done.out
    assert sentence in lab.run("fingerprint", run, "--json").json["inexact"][0]
    assert sentence in lab.run("verify", run).out


def test_generated_data_that_another_processor_rounded_differently_is_no_other_data(
    lab: Lab, finished: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "mine"))
    _rewrite(run, lambda identity: identity | {"data": "0" * 64})
    proof = lab.run("verify-resume", run)
    assert proof.code == 2
    assert "nothing to prove here before the next one" in proof.err
    assert ROUNDED in lab.run("evaluate", run).err
    done = lab.run("train", "--resume", run, "alg.generations=4")
    assert done.code == 0, done.err
    assert ROUNDED in done.out
    assert lab.run("fingerprint", run, "--json").json["inexact"] == [ROUNDED]
    assert lab.run("verify", run).code == 0
    assert lab.run("verify-resume", run).code == 0


def test_generated_data_that_differs_by_more_than_rounding_is_other_data(
    lab: Lab, finished: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "mine"))
    _rewrite(run, lambda identity: identity | {"data": "0" * 64, "rounded_data": "1" * 64, "version": "9.9"})
    before = (run / "metrics.jsonl").read_bytes()
    for verb in (("evaluate", run), ("train", "--resume", run, "alg.generations=4"), ("verify-resume", run)):
        done = lab.run(*verb)
        assert done.code == 2, done.err
        assert "is not what version 9.9 generated" in done.err
    assert (run / "metrics.jsonl").read_bytes() == before


def _forget(run: Path, key: str) -> None:
    """The run as a version without `env.<key>` would have left it."""
    lines = (run / "config.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.strip().startswith(f"{key}:")]
    assert len(kept) == len(lines) - 1
    (run / "config.yaml").write_text("".join(kept), encoding="utf-8")

    def without(identity: dict[str, Any]) -> dict[str, Any]:
        env = {name: value for name, value in identity["config"]["env"].items() if name != key}
        return identity | {"config": {**identity["config"], "env": env}}

    _rewrite(run, without)


def _rewrite(run: Path, change: Any) -> None:
    from dataclasses import replace

    from eigen2.store.manifest import read_manifest, to_bytes

    for path in (run / "checkpoints").iterdir():
        manifest = read_manifest(path)
        path.write_bytes(to_bytes(replace(manifest, identity=change(dict(manifest.identity)))))
