"""A disk whose fsync fails now and then: no checkpoint is believed that is not safe, and the run can go on."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_lab import ORDERS, Lab, newest, story

from eigen2.harness.run import Run
from eigen2.store.integrity import verify


@pytest.mark.timeout(900)
def test_failing_fsyncs_cost_checkpoints_but_no_result(
    lab: Lab, tmp_path: Path, finished: Path, with_fault: Callable[[str], tuple[str, ...]]
) -> None:
    fault = "enable_random name=posix/io/sync/fsync,probability=0.03,failinfo=5"
    overrides = [*ORDERS, f"run.root={tmp_path}", "run.name=mine"]
    done = subprocess.run(
        [*with_fault(fault), sys.executable, "-m", "eigen2", "train", *overrides],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert "Traceback" not in done.stderr
    run = tmp_path / "mine"
    if done.returncode == 0:
        assert newest(run) == 3
    else:
        assert done.returncode == 4
        assert "Input/output error" in done.stderr or "could not be written" in done.stderr
    if not run.exists():
        assert list(tmp_path.glob(".new-*")) == []
        lab.train("mine", ORDERS, tmp_path)
    # One whose every save has failed has nothing to verify yet.
    assert newest(run) < 0 or verify(Run(run).checkpoints).ok
    assert lab.run("train", "--resume", run).code == 0
    assert story(run) == story(finished)
    assert lab.run("fingerprint", run).out == lab.run("fingerprint", finished).out
