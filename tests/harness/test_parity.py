"""Parity: one damaged object of a group is computed again, by repair and by a resume, bit for bit."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_lab import ORDERS, Lab

from eigen2.algorithms.contract import Needs
from eigen2.config import load_config
from eigen2.harness.disk_use import disk_use
from eigen2.harness.repair import repair_run
from eigen2.harness.run import Run
from eigen2.harness.verifying import verify_run


@pytest.fixture(scope="module")
def protected(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lab.train("protected", ORDERS, tmp_path_factory.mktemp("parity"), "checkpoint.parity=0.2")


@pytest.fixture
def run(protected: Path, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(protected, tmp_path / "mine")))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def test_it_computes_the_same_and_is_found_whole(lab: Lab, run: Run, finished: Path) -> None:
    assert verify_run(run).ok
    assert run.checkpoints.load("latest").manifest.parity
    assert lab.run("fingerprint", run.path).out == lab.run("fingerprint", finished).out


@pytest.mark.parametrize("harm", [flip, Path.unlink], ids=["damaged", "missing"])
def test_any_single_object_of_a_checkpoint_comes_back(run: Run, harm: Callable[[Path], Any]) -> None:
    objects = run.checkpoints.objects
    names = {ref.hash for m in run.checkpoints.good().values() for ref in m.objects.values()}
    for name in sorted(names):
        content = objects.path(name).read_bytes()
        harm(objects.path(name))
        facts = repair_run(run, None, lambda sentence: None)
        assert facts["lost"] == [], name
        assert objects.path(name).read_bytes() == content
    assert verify_run(run).ok
    assert verify_run(run).inexact == ()


def test_a_resume_heals_by_itself_and_says_so(lab: Lab, run: Run) -> None:
    latest = run.checkpoints.load("latest").manifest
    path = run.checkpoints.objects.path(latest.objects["state/tree.json"].hash)
    flip(path)
    done = lab.run("train", "--resume", run.path, "alg.generations=4")
    assert done.code == 0, done.err
    assert "computed again from parity" in done.out
    assert "an older checkpoint is used" not in done.out
    assert verify_run(run).ok


def test_two_of_one_group_are_too_many_and_that_is_said(run: Run) -> None:
    members = next(m for m in run.checkpoints.load("latest").manifest.parity.values() if len(m) > 1)
    for name in members[:2]:
        flip(run.checkpoints.objects.path(name))
    facts = repair_run(run, None, lambda sentence: None)
    assert facts["lost"] or facts["rebuilt"]
    assert verify_run(run).ok


def test_the_disk_forecast_counts_it(run: Run) -> None:
    """As it was when the run started, and what it is now: the best of three steps may be kept by itself, which is not foreseen."""
    forecast = run.facts()["forecast"]["components"]["parity"]["disk_bytes"]
    objects = {name: ref for m in run.checkpoints.good().values() for name, ref in m.objects.items()}
    actual = sum(ref.size for name, ref in objects.items() if name.startswith("parity/"))
    assert 0.4 < forecast / actual < 1.6


def test_its_forecast_follows_the_share_for_many_objects_and_the_largest_for_few() -> None:
    wants = Needs(steps=10, state=10**10, first_state=10**10, evaluations=10)
    few = replace(wants, state=10**6, first_state=10**6)

    def added(needs: Needs, share: float) -> float:
        config = load_config([f"checkpoint.parity={share}"])
        used = disk_use(config, needs)
        return used["parity"][0] / used["checkpoints"][0]

    assert added(wants, 0.0) == 0.0
    assert added(wants, 0.05) == pytest.approx(0.05, rel=0.1)
    assert added(wants, 0.2) == pytest.approx(0.2, rel=0.1)
    assert added(few, 0.05) == added(few, 0.2) == pytest.approx(0.5)
