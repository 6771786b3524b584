"""`eigen2 memory` of real runs: ten that do not leak are said not to; and `memory.verbose` tells it as it happens."""

import json
import shutil
import signal
from pathlib import Path

import pytest
from command_lab import FLOW_WORLD_MODEL, ORDERS, PENDULUM, SB3, WEIGHTS, WORLD_MODEL, Lab, Moment

UPGRADE = Path(__file__).parents[1] / "upgrade"
STEPS = 16
EVOLVING = (f"alg.generations={STEPS}",)
ITERATING = (f"alg.iterations={STEPS}",)
ROUNDS = (f"alg.env_steps={50 * STEPS}",)
HEALTHY = {
    "orders": (*ORDERS, *EVOLVING),
    "orders of another seed": (*ORDERS, *EVOLVING, "seed=11", "checkpoint.every=4"),
    "orders with processes": (*ORDERS, *EVOLVING, "cluster=processes", "workers=2"),
    "weights": (*WEIGHTS, *EVOLVING),
    "pendulum": (*PENDULUM, *EVOLVING),
    "world model": (*WORLD_MODEL, *ITERATING),
    "flow": (*FLOW_WORLD_MODEL, *ITERATING),
    **{name: (*overrides, *ROUNDS) for name, overrides in SB3.items()},
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_has_no_leak(lab: Lab, tmp_path: Path, name: str) -> None:
    lab.train("healthy", HEALTHY[name], tmp_path)
    facts = lab.run("memory", tmp_path / "healthy", "--json").json
    assert facts["leak"] is False
    assert facts["verdict"].startswith("no leak: ")
    assert facts["steps"] >= 6
    assert facts["owners"].keys() & {"replay", "networks"}
    assert facts["phases"]


def test_a_run_that_trains_can_be_asked(lab: Lab, tmp_path: Path) -> None:
    moment = Moment("stepped", "SIGSTOP", 3)
    started = lab.start("train", *ORDERS, f"run.root={tmp_path}", "run.name=live", moments=(moment,))
    started.wait_stopped()
    facts = lab.run("memory", tmp_path / "live", "--json").json
    assert facts["verdict"].startswith("not enough steps yet")
    started.signal(signal.SIGCONT)
    assert started.wait().code == 0


def test_the_console_is_quiet_unless_asked(lab: Lab, tmp_path: Path) -> None:
    quiet = lab.run("train", *ORDERS, f"run.root={tmp_path}", "run.name=quiet")
    assert "by owner" not in quiet.out
    loud = lab.run("train", *ORDERS, f"run.root={tmp_path}", "run.name=loud", "memory.verbose=2")
    assert loud.out.count("memory after step") == 1
    for words in (
        "memory after step 2: RSS",
        "by owner: ",
        "numpy arrays",
        "objects: ",
        "baseline",
        "not enough",
    ):
        assert words in loud.out
    assert (tmp_path / "quiet" / "metrics.jsonl").read_bytes() == (
        tmp_path / "loud" / "metrics.jsonl"
    ).read_bytes()


@pytest.mark.parametrize("name", ["format1/erl_orders", "format2/sb3_sac"])
def test_runs_of_earlier_versions_are_understood(lab: Lab, tmp_path: Path, name: str) -> None:
    run = Path(shutil.copytree(UPGRADE / name, tmp_path / "old"))
    assert "not enough steps" in lab.run("memory", run).out
    facts = lab.run("memory", run, "--json").json
    assert facts.keys() >= {"leak", "verdict", "slope_bytes_per_step", "owners"}


def test_each_record_says_what_it_said_before_and_more(finished: Path) -> None:
    records = [json.loads(line) for line in (finished / "memory.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [1, 2, 3]
    for record in records:
        assert {"step", "time", "seconds", "rss_bytes", "owners", "session", "phases"} <= record.keys()
        assert record["owners"]["market"] > 0
    # Steps of milliseconds, on a busy machine, leave no time to read the phases of each.
    read = [record["phases"] for record in records if record["phases"]]
    assert read[0] == records[0]["phases"]
    assert all({"evaluate", "train", "validate", "evolve"} <= phases.keys() | {"train"} for phases in read)
    assert all("checkpoint" in phases for phases in read[1:])
