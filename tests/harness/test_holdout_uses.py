"""A holdout is fresh once: its uses are counted outside the runs, and what `train` shows does not spend it."""

import json
import shutil
from pathlib import Path

from command_lab import ORDERS, PENDULUM, Lab, write_prices

OWN_FILE = tuple(word for word in ORDERS if not word.startswith(("env.data=", "env.synthetic")))


def holdout(lab: Lab, run: Path, **options: object) -> dict[str, object]:
    done = lab.run("evaluate", run, "--split", "holdout", "--json", **options)
    assert done.code == 0, done.err
    found: dict[str, object] = done.json
    return found


def test_two_seeds_on_one_file_are_two_uses_whatever_is_deleted(
    lab: Lab, tmp_path: Path, ledger: Path
) -> None:
    write_prices(tmp_path / "prices.csv")
    shutil.copy(tmp_path / "prices.csv", tmp_path / "a copy.csv")
    first = lab.train("first", (*OWN_FILE, f"env.data={tmp_path / 'prices.csv'}"), tmp_path, "seed=1")
    second = lab.train("second", (*OWN_FILE, f"env.data='{tmp_path / 'a copy.csv'}'"), tmp_path, "seed=2")
    assert not ledger.exists()
    assert holdout(lab, first)["holdout_looks"] == 1
    facts = holdout(lab, second)
    assert facts["holdout_looks"] == 2
    assert facts["candidates"] == 2
    assert facts["holdout"] == {
        "uses": 2,
        "champions": 2,
        "trials": 24,
        "ledger": str(ledger),
        "damaged_lines": 0,
    }
    shutil.rmtree(first)
    (second / "evaluations.jsonl").unlink()
    assert holdout(lab, second)["holdout_looks"] == 3
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert [line.get("run") for line in lines if line["kind"] == "use"] == [
        str(first),
        str(second),
        str(second),
    ]
    ledger.unlink()
    assert holdout(lab, second)["holdout_looks"] == 2, "its own evaluations are not forgotten with the ledger"


def test_training_opens_the_holdout_only_when_it_is_told_to(lab: Lab, tmp_path: Path, ledger: Path) -> None:
    done = lab.run("train", *ORDERS, f"run.root={tmp_path}", "run.name=mine", "--holdout", "--json")
    assert done.code == 0, done.err
    assert done.json["evaluation"]["split"] == "holdout"
    assert done.json["evaluation"]["holdout_looks"] == 1
    assert ledger.exists()
    again = lab.run("train", "--resume", tmp_path / "mine", "--holdout", "--json")
    assert again.json["evaluation"]["holdout_looks"] == 2


def test_the_first_use_says_what_it_costs_and_every_use_where_it_is_counted(
    lab: Lab, finished: Path, tmp_path: Path, ledger: Path
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "mine"))
    first, second = (" ".join(lab.run("evaluate", run, "--split", "holdout").out.split()) for _ in range(2))
    assert "this was the first use of this holdout" in first
    assert "the first use" not in second
    assert "holdout uses 2" in second
    for said in (first, second):
        assert str(ledger) in said.replace(" ", "")
        assert "deleting it resets the count" in said


def test_a_ledger_that_cannot_be_written_keeps_the_holdout_closed(
    lab: Lab, finished: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    wrong = {"EIGEN2_LEDGER": str(tmp_path / "file" / "ledger.jsonl")}
    for command in (
        ("evaluate", finished, "--split", "holdout"),
        ("evaluate", "--policy", "cash", *ORDERS[:10], "--split", "holdout"),
    ):
        done = lab.run(*command, environment=wrong)
        assert done.code == 3
        assert done.out == ""
        assert done.err.startswith("eigen2: The holdout stays closed: ")
        assert len(done.err.splitlines()) == 1
    assert lab.run("evaluate", "--policy", "cash", *ORDERS[:10], environment=wrong).code == 0


def test_a_damaged_line_is_said_and_hides_no_result(
    lab: Lab, finished: Path, tmp_path: Path, ledger: Path
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "mine"))
    ledger.write_bytes(b"scribble\n")
    done = lab.run("evaluate", run, "--split", "holdout")
    assert done.code == 0
    assert "1 lines of" in done.out
    assert "verdict" in done.out


def test_a_control_task_has_no_holdout_to_count(lab: Lab, tmp_path: Path, ledger: Path) -> None:
    done = lab.run("train", *PENDULUM, f"run.root={tmp_path}", "--holdout", "--json")
    assert done.code == 0
    assert "mean_return" in done.json["evaluation"]
    assert not ledger.exists()


def test_the_table_is_whole_at_80_columns_and_spares_columns_at_60(
    lab: Lab, finished: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "mine"))
    wide = lab.run("evaluate", run, environment={"COLUMNS": "80"}).out
    assert all(len(line) <= 80 for line in wide.splitlines())
    heading = next(line for line in wide.splitlines() if "95 % interval" in line)
    assert " ".join(heading.split()) == "return a year Sharpe 95 % interval drawdown turnover trades"
    narrow = lab.run("evaluate", run, environment={"COLUMNS": "60"}).out
    assert "trades" not in narrow
    assert "…" not in wide + narrow
    assert all(len(line) <= 60 for line in narrow.splitlines())
