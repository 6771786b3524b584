"""The command line, end to end: what each command prints, and the exit code the shell sees."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command_lab import ORDERS, PENDULUM, Lab, Moment, story
from forgery import Forgery


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A finished run of one's own."""
    return Path(shutil.copytree(finished, tmp_path / "mine"))


def sentence(text: str) -> str:
    """stderr of a failed command: one line, no traceback."""
    (line,) = text.splitlines()
    assert line.startswith("eigen2: ")
    return line


def prices(path: Path, days: int = 400) -> Path:
    """A market of four symbols in a file."""
    import numpy as np
    import pandas as pd

    steps = np.random.Generator(np.random.PCG64(1)).normal(0, 0.01, (days, 4))
    table = pd.DataFrame(100 * np.exp(steps.cumsum(axis=0)), columns=["A", "B", "C", "D"])
    table.insert(0, "date", pd.bdate_range("2015-01-01", periods=days))
    table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("command", [["eigen2"], [sys.executable, "-m", "eigen2"]])
def test_the_installed_command_and_the_module_are_the_same_program(command: list[str]) -> None:
    program = [str(Path(sys.executable).with_name("eigen2"))] if command == ["eigen2"] else command
    done = subprocess.run([*program, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    for verb in ("train", "evaluate", "runs", "verify", "verify-resume", "fingerprint", "data", "replay"):
        assert verb in done.stdout


def test_training_ends_with_the_table_and_the_run(lab: Lab, tmp_path: Path) -> None:
    done = lab.run("train", *ORDERS, cwd=tmp_path)
    assert done.code == 0
    assert done.err == ""
    first, *_, last = done.out.splitlines()
    assert first == last == f"run {tmp_path / 'runs' / 'erl_random_walk_seed7'}"
    assert "3/3" in done.out
    for shown in ("champion", "equal", "cash", "verdict", "validation", "--split holdout"):
        assert shown in done.out


def test_quiet_training_prints_the_result_alone(lab: Lab, tmp_path: Path) -> None:
    done = lab.run("train", *ORDERS, "--quiet", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "generation" not in done.out
    assert "forecast" not in done.out
    assert "champion" in done.out
    assert f"run {tmp_path / 'runs' / 'erl_random_walk_seed7'}" in done.out


def test_training_with_json_prints_one_object_and_nothing_else(lab: Lab, tmp_path: Path) -> None:
    done = lab.run("train", *ORDERS, "--json", cwd=tmp_path)
    assert done.code == 0
    assert done.json["run"] == str(tmp_path / "runs" / "erl_random_walk_seed7")
    facts = done.json["evaluation"]
    assert facts["split"] == "validation"
    assert facts["holdout_looks"] == 0
    assert {"log_return", "sharpe", "sharpe_ci", "max_drawdown", "turnover"} <= facts["champion"].keys()
    wanted = {
        "verdict",
        "evidence_of_skill",
        "benchmarks",
        "trials",
        "deflated_sharpe",
        "pbo",
        "holdout_looks",
    }
    assert wanted <= facts.keys()


def test_training_on_a_gymnasium_task_compares_with_random_and_still(lab: Lab, tmp_path: Path) -> None:
    done = lab.run("train", *PENDULUM, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    wanted = {"mean_return", "std_return", "episodes", "random_return", "stand_still_return"}
    assert wanted <= done.json["evaluation"].keys()


def test_the_same_seed_gives_the_same_run(lab: Lab, tmp_path: Path, finished: Path) -> None:
    again = lab.train("again", ORDERS, tmp_path)
    assert story(again) == story(finished)
    assert lab.run("fingerprint", again).out == lab.run("fingerprint", finished).out


def test_another_seed_gives_another_run(lab: Lab, tmp_path: Path, finished: Path) -> None:
    other = lab.train("other", ORDERS, tmp_path, "seed=8", "env.synthetic.seed=7")
    assert story(other)["metrics.jsonl"] != story(finished)["metrics.jsonl"]


def test_worker_processes_change_no_result(lab: Lab, tmp_path: Path) -> None:
    overrides = (*ORDERS, "cluster=processes", "workers=2", "alg.block=2")
    inline = lab.train("inline", (*ORDERS, "alg.block=2"), tmp_path)
    assert story(lab.train("workers", overrides, tmp_path)) == story(inline)


def test_evaluating_the_holdout_counts_looks_and_changes_no_training_state(lab: Lab, run: Path) -> None:
    before = lab.run("fingerprint", run, "--json").json
    objects, looks = [], []
    for _ in range(2):
        looks.append(lab.run("evaluate", run, "--split", "holdout", "--json").json["holdout_looks"])
        objects.append(sorted(path.relative_to(run) for path in (run / "objects").rglob("*")))
    assert looks == [1, 2]
    assert objects[0] == objects[1]
    assert lab.run("fingerprint", run, "--json").json == before


def test_evaluating_the_validation_split_opens_no_holdout(lab: Lab, run: Path) -> None:
    facts = lab.run("evaluate", run, "--json").json
    assert facts["split"] == "validation"
    assert lab.run("evaluate", run, "--split", "holdout", "--json").json["holdout_looks"] == 1


def test_a_benchmark_is_evaluated_without_a_run(lab: Lab, tmp_path: Path) -> None:
    done = lab.run("evaluate", "--policy", "equal_weight", *ORDERS[:10], "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.json["split"] == "validation"
    assert list(tmp_path.iterdir()) == []


def test_verify_accepts_a_good_run(lab: Lab, finished: Path) -> None:
    done = lab.run("verify", finished)
    assert done.code == 0
    assert "every hash matches" in done.out
    assert lab.run("verify", finished, "--json").json["ok"] is True


def test_verify_names_the_damaged_object_and_exits_5(lab: Lab, run: Path) -> None:
    victim = max(
        (path for path in (run / "objects").rglob("*") if path.is_file()), key=lambda p: p.stat().st_size
    )
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    done = lab.run("verify", run)
    assert done.code == 5
    assert str(victim) in sentence(done.err)


def test_verify_resume_repeats_the_last_step_bit_for_bit(lab: Lab, finished: Path) -> None:
    done = lab.run("verify-resume", finished, "--json")
    assert done.code == 0
    assert done.json == {"ok": True, "from_step": 2, "to_step": 3, "differing": []}


def test_verify_resume_refuses_a_state_that_does_not_follow_from_the_previous_one(
    lab: Lab, tmp_path: Path
) -> None:
    run = lab.train("forged", ORDERS, tmp_path)
    other = lab.train("other", ORDERS, tmp_path, "alg.actor_lr=0.01")
    shutil.copytree(other / "objects", run / "objects", dirs_exist_ok=True)
    shutil.copy(other / "checkpoints" / "latest.json", run / "checkpoints" / "latest.json")
    done = lab.run("verify-resume", run)
    assert done.code == 5
    assert "learners differs" in sentence(done.err)
    # A step of another processor may be rounded differently: that is no damage, and no proof.
    Forgery(run).forge(lambda body: body["identity"].update(processor="Z80 (DEFAULT)"))
    done = lab.run("verify-resume", run)
    assert done.code == 2
    assert "computed on Z80 (DEFAULT), this is" in sentence(done.err)


def test_fingerprint_is_one_hash_and_the_step(lab: Lab, finished: Path) -> None:
    facts = lab.run("fingerprint", finished, "--json").json
    assert facts["step"] == 3
    assert len(facts["fingerprint"]) == 64
    assert lab.run("fingerprint", finished).out == f"{facts['fingerprint']}  step 3\n"


def test_replay_info_tells_what_transitions_cost(lab: Lab, finished: Path) -> None:
    facts = lab.run("replay", "info", finished, "--json").json
    assert {"transitions", "capacity", "ram_bytes", "disk_bytes", "naive_bytes"} <= facts.keys()
    assert 0 < facts["transitions"] <= facts["capacity"] == 2000
    assert "transitions" in lab.run("replay", "info", finished).out


def test_replay_verify_decodes_every_block(lab: Lab, finished: Path) -> None:
    assert lab.run("replay", "verify", finished, "--json").json["segments"] >= 1


def test_pwm_parity_counts_the_parameters_of_both_variants(lab: Lab) -> None:
    facts = lab.run("pwm", "parity", "pwm_tiny", "pwm_317M", "--json").json
    assert facts["presets"].keys() == {"pwm_tiny", "pwm_317M"}
    assert facts["presets"]["pwm_317M"]["mlp"] > 50_000_000
    done = lab.run("pwm", "parity", "pwm_tiny_flow")
    assert done.code == 0
    assert f"{facts['presets']['pwm_tiny']['flow']:,}" in done.out


def test_runs_lists_every_run_with_its_state(lab: Lab, finished: Path) -> None:
    (listed,) = lab.run("runs", "--root", finished.parent, "--json").json
    assert listed["name"] == "finished"
    assert listed["path"] == str(finished)
    assert (listed["state"], listed["step"], listed["steps"]) == ("done", 3, 3)
    assert listed["bytes"] > 10_000
    assert "finished" in lab.run("runs", "--root", finished.parent).out


def test_a_run_that_was_killed_is_listed_as_crashed(lab: Lab, tmp_path: Path) -> None:
    done = lab.run("train", *ORDERS, f"run.root={tmp_path}", moments=(Moment("stepped", "SIGKILL", 2),))
    assert done.killed
    (listed,) = lab.run("runs", "--root", tmp_path, "--json").json
    assert (listed["state"], listed["steps"]) == ("crashed", 3)


def test_one_damaged_run_does_not_hide_the_others(lab: Lab, run: Path) -> None:
    damaged = Path(shutil.copytree(run, run.with_name("damaged")))
    (damaged / "run.json").write_text("{", encoding="utf-8")
    states = {found["name"]: found["state"] for found in lab.run("runs", "--root", run.parent, "--json").json}
    assert states == {"mine": "done", "damaged": "damaged"}


def test_an_empty_root_lists_nothing(lab: Lab, tmp_path: Path) -> None:
    assert lab.run("runs", "--root", tmp_path / "none", "--json").json == []


def test_data_list_warns_of_what_the_samples_hide(lab: Lab) -> None:
    samples = {sample["name"]: sample for sample in lab.run("data", "list", "--json").json["samples"]}
    assert {"sp20", "ohlcv5", "etf23", "random_walk", "shuffled"} <= samples.keys()
    assert any("surviv" in caveat for caveat in samples["sp20"]["caveats"])
    assert "sp20" in lab.run("data", "list").out


def test_data_check_accepts_a_good_file_and_writes_nothing(lab: Lab, tmp_path: Path) -> None:
    file = prices(tmp_path / "prices.csv")
    done = lab.run("data", "check", file, *ORDERS[3:10])
    assert done.code == 0, done.err
    assert done.out.endswith("can be used.\n")
    assert list(tmp_path.iterdir()) == [file]


def test_data_check_refuses_a_bad_file_with_exit_3(lab: Lab, tmp_path: Path) -> None:
    file = prices(tmp_path / "prices.csv")
    lines = file.read_text().splitlines()
    lines[7] = lines[7].replace(lines[7].split(",")[2], "-3.5")
    file.write_text("\n".join(lines))
    done = lab.run("data", "check", file, "--json", *ORDERS[3:10])
    assert done.code == 3
    assert done.json["ok"] is False
    assert any(finding["severity"] == "error" for finding in done.json["findings"])
    assert str(file) in sentence(done.err)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["train", "alg.populaton=4"], 2, "alg.population"),
        (["train", "alg.population=1"], 2, "alg.population"),
        (["train", "alg=er"], 2, "erl"),
        (["train", "alg.population=2,4"], 2, "several values"),
        (["train", "env.data=sp2"], 3, "sp20"),
        (["train", "env.data=nowhere.csv"], 3, "nowhere.csv"),
        (["train", "run.name=a/b"], 2, "run.name"),
        (["train", "device=mps"], 2, "device"),
        (["train", "--resume"], 2, "no run"),
        (["train", "--resume", "nobody"], 2, "nobody"),
        (["evaluate", "nobody"], 2, "nobody"),
        (["verify", "nobody"], 2, "nobody"),
        (["export", "nobody"], 2, "nobody"),
        (["pwm", "parity", "pwm_6M"], 2, "pwm_5M"),
        (["evaluate", "--policy", "equal_wait", *ORDERS[:10]], 2, "equal_weight"),
    ],
)  # fmt: skip
def test_a_refusal_is_one_sentence_an_exit_code_and_nothing_written(
    lab: Lab, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    done = lab.run(*arguments, cwd=tmp_path)
    assert done.code == code, done.err
    assert words in sentence(done.err)
    assert done.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_split_that_does_not_exist_is_refused_by_name(lab: Lab, finished: Path) -> None:
    done = lab.run("evaluate", finished, "--split", "test")
    assert done.code == 2
    assert "holdout" in sentence(done.err)


def test_debug_shows_where_a_failure_comes_from(lab: Lab, tmp_path: Path) -> None:
    done = lab.run("train", "alg.populaton=4", "--debug", cwd=tmp_path)
    assert done.code == 2
    assert "Traceback" in done.err
    assert "ConfigError" in done.err


def test_a_place_that_cannot_hold_runs_is_refused_by_name(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    done = lab.run("train", *ORDERS, f"run.root={tmp_path / 'file'}")
    assert done.code == 2
    assert str(tmp_path / "file") in sentence(done.err)


def test_a_damaged_run_without_a_good_checkpoint_exits_5(lab: Lab, run: Path) -> None:
    for manifest in (run / "checkpoints").iterdir():
        manifest.write_bytes(manifest.read_bytes()[:-10])
    commands: list[list[str | Path]] = [["train", "--resume", run], ["evaluate", run], ["fingerprint", run]]
    for command in commands:
        done = lab.run(*command)
        assert done.code == 5, done.err
        assert "latest" in done.err.splitlines()[-1]


def test_show_config_prints_yaml_that_is_the_config(lab: Lab, tmp_path: Path) -> None:
    root = tmp_path / ("long " * 30) / "runs"
    done = lab.run("train", "--show-config", "alg.population=8", f"run.root='{root}'", cwd=tmp_path)
    assert done.code == 0
    values = yaml.safe_load(done.out)
    assert values["alg"]["population"] == 8
    assert values["run"]["root"] == str(root)
    assert "#   alg.population: " in done.out
    assert list(tmp_path.iterdir()) == []
    facts = lab.run("train", "--show-config", "--json", "alg.population=8").json
    assert facts["config"]["alg"]["population"] == 8
    assert facts["differences"].keys() == {"alg.population"}
    assert facts["differences"]["alg.population"]["now"] == 8


def test_config_yaml_of_a_run_is_the_resolved_config(finished: Path) -> None:
    values = yaml.safe_load((finished / "config.yaml").read_text(encoding="utf-8"))
    assert values["alg"]["population"] == 4
    assert values["env"]["data"] == "random_walk"


def test_run_json_tells_what_ran_where_and_how_it_ended(finished: Path) -> None:
    facts = json.loads((finished / "run.json").read_text(encoding="utf-8"))
    assert facts["status"] == "done"
    assert facts["command"].startswith("eigen2 train ")
    assert len(facts["data_fingerprint"]) == 64
    assert facts["packages"]["torch"]
    assert {"git", "host", "python", "platform", "started", "updated", "gpu", "slurm_job_id"} <= facts.keys()
    assert (facts["exit_code"], facts["reason"]) == (0, None)
    assert facts["started"] <= facts["ended"] <= facts["updated"]
    assert (facts["alg"], facts["env"], facts["seed"]) == ("erl", "random_walk", 7)
    assert facts["presets"] == {"alg": "erl", "env": "trading"}
    assert facts["config_diff"]["alg.population"] == {"preset": 16, "now": 4}
    assert "seed" not in facts["config_diff"]
    if facts["git"] is not None:
        assert facts["git_commit"] + "-dirty" * facts["git_dirty"] == facts["git"]


def test_run_json_tells_how_each_process_ended_and_where_the_next_went_on(lab: Lab, tmp_path: Path) -> None:
    slurm = {"SLURM_JOB_ID": "17_3", "SLURM_ARRAY_TASK_ID": "3"}
    stopped = lab.run(
        "train", *ORDERS, f"run.root={tmp_path}", "run.name=x", environment=slurm,
        moments=(Moment("stepped", "SIGTERM", 2),),
    )  # fmt: skip
    assert stopped.code == 75
    facts = json.loads((tmp_path / "x" / "run.json").read_text())
    assert (facts["status"], facts["exit_code"]) == ("stopped", 75)
    assert "SIGTERM" in facts["reason"]
    assert (facts["slurm_job_id"], facts["slurm"]) == ("17_3", {"job_id": "17_3", "array_task_id": "3"})
    killed = lab.run("train", "--resume", tmp_path / "x", moments=(Moment("stepped", "SIGKILL", 1),))
    assert killed.killed
    assert json.loads((tmp_path / "x" / "run.json").read_text())["status"] == "running"
    assert lab.run("train", "--resume", tmp_path / "x").code == 0
    facts = json.loads((tmp_path / "x" / "run.json").read_text())
    first, second = facts["resumes"]
    assert (first["after"], second["after"]) == ("stopped", "killed")
    assert first["step"] == 2
    assert first["packages"] == {}
    assert first["slurm_job_id"] is None
    assert (facts["slurm_job_id"], facts["exit_code"]) == ("17_3", 0)


def test_version_and_short_help(lab: Lab) -> None:
    assert lab.run("--version").out.startswith("eigen2 0.")
    for words in (("-h",), ("train", "-h"), ("data", "-h")):
        done = lab.run(*words)
        assert (done.code, "Usage:" in done.out) == (0, True)


def test_an_interrupt_while_libraries_are_loaded_prints_no_traceback(tmp_path: Path) -> None:
    # The handler is Python's own, also where the tests themselves were started with SIGINT ignored.
    lines = (
        "import os, signal",
        "signal.signal(signal.SIGINT, signal.default_int_handler)",
        "os.kill(os.getpid(), signal.SIGINT)",
    )
    (tmp_path / "typer.py").write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, "-m", "eigen2", "runs"], env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_closed_streams_are_no_failure(lab: Lab, tmp_path: Path) -> None:
    program = str(Path(sys.executable).with_name("eigen2"))
    words = [
        program,
        "train",
        *ORDERS,
        "alg.generations=1",
        f"run.root={tmp_path}",
        "run.name=silent",
        "--json",
    ]
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert lab.run("verify", str(tmp_path / "silent")).code == 0


def test_more_threads_than_a_machine_can_start_are_refused(lab: Lab, tmp_path: Path) -> None:
    done = lab.run("train", *ORDERS, "threads=100000", f"run.root={tmp_path}")
    assert done.code == 2
    assert "threads=100000 is far more than the " in done.err


@pytest.mark.parametrize(
    ("number", "code", "advice"),
    [
        ("EIO", 4, "the disk is failing"), ("ESTALE", 4, "the disk is failing"), ("ENOSPC", 4, "free some space"),
        ("EFBIG", 4, "free some space"), ("ENOMEM", 4, "eigen2 plan"), ("EROFS", 2, "make it accessible"),
        ("EACCES", 2, "make it accessible"), ("ENOENT", 2, "moved or deleted"),
    ],
)  # fmt: skip
def test_a_failing_disk_is_one_sentence_without_numbers(number: str, code: int, advice: str) -> None:
    from eigen2.harness.exits import disk_words

    value = getattr(errno, number)
    said, found = disk_words(OSError(value, os.strerror(value), "/some/file"))
    assert (found, said.startswith("/some/file "), advice in said) == (code, True, True)
    assert "Errno" not in said


def test_libraries_that_do_not_fit_into_memory_are_a_shortage() -> None:
    from eigen2.store.shortage import is_shortage

    assert is_shortage(ImportError("libtorch_cpu.so: failed to map segment from shared object"))
    assert is_shortage(RuntimeError("can't start new thread"))
    assert not is_shortage(ImportError("No module named 'gone'"))
