"""`evaluate` under other circumstances, the files it leaves, and walk-forward."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_lab import ORDERS, Lab, Moment, write_prices

from eigen2.harness import evaluation_files
from eigen2.harness.run import Run

SMALL = [o for o in ORDERS if not o.startswith(("env.data", "env.synthetic"))]


@pytest.fixture(scope="module")
def trained(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on a file of its own; nobody may change it."""
    place = tmp_path_factory.mktemp("what_if")
    write_prices(place / "prices.csv")
    return lab.train("mine", (*SMALL, f"env.data={place / 'prices.csv'}"), place)


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "mine"))


def newest_files(run: Path) -> dict[str, pd.DataFrame]:
    place = sorted((run / "evaluations").iterdir())[-1]
    assert {path.name for path in place.iterdir()} == {
        "equity.csv",
        "positions.csv",
        "trades.csv",
        "evaluation.json",
    }
    return {path.stem: pd.read_csv(path, parse_dates=["date"]) for path in place.glob("*.csv")}


def test_the_files_tell_what_happened_to_every_unit_of_money(lab: Lab, run: Path) -> None:
    """Cash flows of the trades and the listed positions give the equity of every day."""
    facts = lab.run("evaluate", run, "--split", "holdout", "--json").json
    files = newest_files(run)
    equity, trades, positions = files["equity"], files["trades"], files["positions"]
    assert list(equity.columns)[:3] == ["date", "champion", "equal_weight"]
    assert len(equity) == facts["champion"]["days"]
    assert np.log(equity["champion"].iloc[-1]) == pytest.approx(facts["champion"]["log_return"], abs=1e-9)
    side = np.where(trades["side"] == "buy", -1.0, 1.0)
    flow = (side * trades["value"] - trades["cost"]).groupby(trades["date"]).sum()
    cash = 1.0 + flow.reindex(equity["date"]).fillna(0.0).cumsum().to_numpy()
    held = positions.groupby("date")["weight"].sum().reindex(equity["date"]).fillna(0.0).to_numpy()
    np.testing.assert_allclose(cash, equity["champion"] * (1.0 - held), atol=1e-6)
    prices = pd.read_csv(run.parents[0] / "prices.csv") if (run.parents[0] / "prices.csv").exists() else None
    assert prices is None
    assert set(trades["reason"]) <= {"order", "rejected", "target", "time limit"}
    assert (trades["value"] / trades["shares"]).to_numpy() == pytest.approx(trades["price"].to_numpy())


def test_only_the_newest_files_are_kept_and_others_are_left_alone(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eigen2.evaluation.result import Evaluation

    monkeypatch.setattr(evaluation_files, "KEPT", 2)
    (run / "evaluations").mkdir()
    (run / "evaluations" / "my notes").mkdir()
    found = Evaluation({"split": "holdout"}, "", {"returns": {"date": np.arange(3)}})
    places = [evaluation_files.write_files(Run(run), found) for _ in range(4)]
    assert len({place.name for place in places}) == 4
    assert {path.name for path in (run / "evaluations").iterdir()} == {
        "my notes",
        *(place.name for place in sorted(places)[-2:]),
    }


def test_costs_days_newer_prices_and_an_own_benchmark_can_be_tried(
    lab: Lab, run: Path, trained: Path, tmp_path: Path
) -> None:
    plain = lab.run("evaluate", run, "--json").json
    dear = lab.run("evaluate", run, "env.fee_bp=100", "--json").json
    assert dear["what_if"] == {"settings": {"env.fee_bp": 100.0}}
    assert dear["champion"]["log_return"] < plain["champion"]["log_return"]
    assert "what_if" not in plain
    part = lab.run("evaluate", run, "--from", "2016-02-15", "--to", "2016-04-01", "--json").json
    assert part["what_if"]["days"] == ["2016-02-15", "2016-04-01"]
    assert part["champion"]["days"] == 34
    (tmp_path / "mine.csv").write_text("date,A,B\n2016-01-01,0.5,0.5\n2016-03-01,0,0\n")
    own = lab.run("evaluate", run, "--benchmark", tmp_path / "mine.csv", "--json").json
    assert own["benchmarks"]["own"]["exposure"] == pytest.approx(28 / 59, abs=0.03)
    assert own["champion"] == plain["champion"]
    table = pd.read_csv(trained.parent / "prices.csv")
    more = pd.concat([table, table.tail(3).assign(date=["2016-07-14", "2016-07-15", "2016-07-18"])])
    more.to_csv(tmp_path / "newer.csv", index=False)
    newer = lab.run("evaluate", run, "--split", "holdout", "--data", tmp_path / "newer.csv", "--json").json
    assert newer["champion"]["days"] == 59 + 3
    assert len(Run(run).evaluations()) == 6  # one at the end of training


def test_what_cannot_be_tried_is_refused_by_name(lab: Lab, run: Path, tmp_path: Path) -> None:
    (tmp_path / "heavy.csv").write_text("symbol,weight\nA,0.7\nB,0.7\n")
    (tmp_path / "other.csv").write_text("symbol,weight\nZZZ,0.7\n")
    for arguments, code, reason in (
        (("env.window=4",), 2, "env.window"),
        (("alg.population=8",), 2, "alg.population"),
        (("--from", "2015-06-01"), 2, "not among the validation days"),
        (("--benchmark", tmp_path / "heavy.csv"), 3, "1.4"),
        (("--benchmark", tmp_path / "other.csv"), 3, "ZZZ"),
        (("--walk-forward", "9"), 2, "enough for 4"),
        (("--walk-forward", "1"), 2, "at least 2"),
        (("--walk-forward", "2", "env.fee_bp=3"), 2, "env.fee_bp"),
    ):
        done = lab.run("evaluate", run, *arguments)
        assert (done.code, done.out) == (code, ""), (arguments, done.err)
        assert reason in done.err
    assert len(Run(run).evaluations()) == 1


def test_walk_forward_is_one_curve_of_folds_that_go_on_where_they_were(lab: Lab, run: Path) -> None:
    """A fold is killed in the middle; the same command resumes it and does not train the others again."""
    killed = lab.run("evaluate", run, "--walk-forward", "3", moments=(Moment("stepped", "SIGKILL", 5),))
    assert killed.killed
    assert {path.name for path in run.parent.glob("mine*")} == {"mine", "mine-fold1of3", "mine-fold2of3"}
    first = (run.parent / "mine-fold1of3" / "run.json").read_bytes()
    facts = lab.run("evaluate", run, "--walk-forward", "3", "--json").json
    assert (run.parent / "mine-fold1of3" / "run.json").read_bytes() == first
    assert [fold["run"] for fold in facts["folds"]] == ["mine-fold1of3", "mine-fold2of3", "mine"]
    assert facts["champion"]["days"] == 3 * 59
    assert facts["champion"]["log_return"] == pytest.approx(sum(f["log_return"] for f in facts["folds"]))
    equity = newest_equity(run)
    assert equity["date"].is_monotonic_increasing
    assert equity["date"].is_unique
    market = pd.read_csv(run.parent / "mine-fold1of3" / "evaluations.jsonl", sep="\x00", header=None)
    assert len(market) == 1
    again = lab.run("evaluate", run, "--walk-forward", "3", "--json").json
    assert again["folds"] == facts["folds"]
    for fold in ("mine-fold1of3", "mine-fold2of3"):
        config = json.loads(json.dumps(Run(run.parent / fold).raw_config()))
        assert config["env"]["end"] < "2016-05"


def newest_equity(run: Path) -> pd.DataFrame:
    place = sorted((run / "evaluations").glob("*walk_forward*"))[-1]
    return pd.read_csv(place / "equity.csv", parse_dates=["date"])
