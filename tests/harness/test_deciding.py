"""`eigen2 decide`: what a champion does next is what its evaluation has it do, and nobody else's data will do."""

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_lab import ORDERS, WEIGHTS, Lab, write_prices

import eigen2
from eigen2.envs.trading import TradingCore
from eigen2.evaluation.champion import MarketChampion
from eigen2.evaluation.result import Question
from eigen2.harness.run import Run
from eigen2.harness.tables import from_parquet
from eigen2.market.continuation import prices_of, with_prices
from eigen2.market.prices import Prices

RULES = {"orders": ORDERS, "weights": WEIGHTS}


def own_prices(path: Path, bars: bool) -> None:
    """Prices with bars: the long format, with a symbol that is listed late and one that is delisted in the holdout."""
    write_prices(path)
    if not bars:
        return
    wide = pd.read_csv(path, index_col="date")
    wide.loc[wide.index[:60], "B"] = np.nan
    wide.loc[wide.index[-30:], "D"] = np.nan
    stacked = wide.stack()
    assert isinstance(stacked, pd.Series)
    close = stacked.rename("close").reset_index().rename(columns={"level_1": "symbol"})
    close["open"] = close["close"] * (1 + 0.005 * np.sin(np.arange(len(close))))
    close["high"] = close[["open", "close"]].max(axis=1) * 1.01
    close["low"] = close[["open", "close"]].min(axis=1) * 0.99
    close.to_csv(path, index=False)


@pytest.fixture(scope="module", params=["orders", "orders, bars", "weights"])
def trained(request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on a file of its own, evaluated on its holdout; nobody may change it."""
    rule, _, bars = request.param.partition(", ")
    place = tmp_path_factory.mktemp("decide")
    own_prices(place / "prices.csv", bool(bars))
    overrides = [o for o in RULES[rule] if not o.startswith(("env.data", "env.synthetic"))]
    run = lab.train("mine", (*overrides, f"env.data={place / 'prices.csv'}"), place)
    assert lab.run("evaluate", run, "--split", "holdout").code == 0
    return run


@pytest.fixture(scope="module")
def exported(lab: Lab, trained: Path) -> Path:
    """Its export, elsewhere; nobody may change it."""
    target = trained.parent / "exported"
    done = lab.run("export", trained, "--to", target)
    assert done.code == 0, done.err
    return target


@pytest.fixture
def file(trained: Path) -> Path:
    return trained.parent / "prices.csv"


def champion_of(run: Path) -> MarketChampion:
    found = eigen2.load(run)
    assert isinstance(found, MarketChampion)
    return found


def actions(facts: dict[str, Any]) -> np.ndarray:
    """A decision as the core takes it."""
    rows = facts["decisions"]
    if facts["actions"] == "weights":
        return np.array([[*(row["logit"] for row in rows), facts["cash_logit"]]])
    return np.array([[[row["coefficient"], row["sale_target"]] for row in rows]])


def test_decisions_day_by_day_give_the_equity_of_the_evaluation(trained: Path) -> None:
    """Each day is decided on its own, with what is known then; the core then fills it at the real prices."""
    champion, run = champion_of(trained), Run(trained)
    market, days = champion.market, champion.market.holdout
    record = [line for line in run.evaluations() if line["split"] == "holdout"][-1]
    series = {
        name: from_parquet(run.checkpoints.objects.read(record["series"][name]))
        for name in ("returns", "weights")
    }
    core = TradingCore(market, champion.config, 1)
    core.reset(days.start, days.days - 1 - core.settlement_days)
    equity = [1.0]
    for day in range(days.start, days.stop - 1):
        facts = champion.decide(Question(date=str(market.dates[day]))).facts
        assert facts["for_date"] == str(market.dates[day + 1])
        now = [row["weight_now"] for row in facts["decisions"]]
        np.testing.assert_allclose(now, core.books.value[0] / core.equity[0], atol=1e-12)
        core.step(actions(facts))
        equity.append(float(core.equity[0]))
    np.testing.assert_allclose(equity[1:], np.exp(np.cumsum(series["returns"]["champion"])), rtol=1e-9)
    held = np.stack([series["weights"][market.symbols[i]] for i in market.tradable], axis=1)
    np.testing.assert_allclose(core.books.value[0] / core.equity[0], held[-1], atol=1e-6)


def test_nothing_after_the_date_is_looked_at(trained: Path) -> None:
    champion = champion_of(trained)
    day = champion.market.holdout.start + 20
    asked = Question(date=str(champion.market.dates[day]))
    prices = prices_of(champion.market)
    changed = {name: array.copy() for name, array in prices.arrays().items()}
    for array in changed.values():
        array[day + 1 :] *= np.linspace(2.0, 3.0, len(prices.dates) - day - 1)[:, None]
    other = with_prices(champion.market, Prices(prices.dates, prices.symbols, **changed))
    assert not np.array_equal(other.features[day + 1 :], champion.market.features[day + 1 :])
    twin = MarketChampion(other, champion.config, champion._policy_of)
    ours, theirs = champion.decide(asked).facts, twin.decide(asked).facts
    assert ours.pop("data_fingerprint") != theirs.pop("data_fingerprint")
    assert ours == theirs


def test_a_newer_file_continues_the_run_and_the_export_says_the_same(
    lab: Lab, trained: Path, exported: Path, file: Path, tmp_path: Path
) -> None:
    """Two days later, from the run and from its export, which have nothing but themselves."""
    newer = later(file, tmp_path / "newer.csv", 2)
    alone, export = (shutil.copytree(place, tmp_path / place.name) for place in (trained, exported))
    found = [
        lab.run("decide", place, "--data", newer, "--capital", "5000", "--json").json
        for place in (alone, export)
    ]
    assert found[0] == found[1]
    assert (found[0]["as_of"], found[0]["capital"]) == ("2016-07-15", 5000.0)
    assert (found[0]["for_date"], found[0]["for_date_known"]) == ("2016-07-18", False)
    without = lab.run("decide", alone, "--json").json
    assert without["as_of"] == "2016-07-13"
    assert without["cash_now"] == pytest.approx(
        1.0 if without["actions"] == "orders" else without["cash_now"]
    )


def test_a_newer_file_may_begin_before_the_days_that_the_run_knows(lab: Lab, tmp_path: Path) -> None:
    write_prices(tmp_path / "prices.csv")
    overrides = [o for o in ORDERS if not o.startswith(("env.data", "env.synthetic"))]
    own = (f"env.data={tmp_path / 'prices.csv'}", "env.start=2015-03-02", "alg.generations=1")
    run = lab.train("mine", (*overrides, *own), tmp_path)
    newer = later(tmp_path / "prices.csv", tmp_path / "newer.csv", 2)
    done = lab.run("decide", run, "--data", newer, "--json")
    assert done.code == 0, done.err
    assert done.json["as_of"] == "2016-07-15"
    early = pd.read_csv(newer).head(30)
    early.to_csv(tmp_path / "early.csv", index=False)
    refused = lab.run("decide", run, "--data", tmp_path / "early.csv")
    assert (refused.code, "ends before 2015-03-02" in refused.err) == (3, True)


def later(file: Path, target: Path, days: int, factor: float = 1.0) -> Path:
    """The file with more days, all prices multiplied."""
    table = pd.read_csv(file)
    dates = pd.bdate_range("2016-07-14", periods=days).strftime("%Y-%m-%d")
    last = table[table["date"] == table["date"].iloc[-1]]
    more = pd.concat([last.assign(date=date) for date in dates])
    joined = pd.concat([table, more])
    numbers = [name for name in joined.columns if name not in ("date", "symbol")]
    joined[numbers] *= factor
    joined.to_csv(target, index=False)
    return target


def test_a_file_that_was_adjusted_since_is_the_same_market(trained: Path, file: Path, tmp_path: Path) -> None:
    """A dividend has scaled all earlier prices: positions are the same, in new units."""
    champion = champion_of(trained)
    before = champion.decide(Question(data=later(file, tmp_path / "a.csv", 1))).facts
    after = champion.decide(Question(data=later(file, tmp_path / "b.csv", 1, factor=0.98))).facts
    for ours, theirs in zip(before["decisions"], after["decisions"], strict=True):
        assert theirs["weight_target"] == pytest.approx(ours["weight_target"], abs=1e-6)
        assert theirs["price"] == pytest.approx(0.98 * ours["price"])
        assert theirs["shares"] == pytest.approx(ours["shares"] / 0.98, abs=1e-4)


def test_what_is_really_held_replaces_what_the_champion_would_hold(
    lab: Lab, trained: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text("symbol,shares\nA,10\nCASH,500\n")
    facts = lab.run("decide", trained, "--holdings", tmp_path / "mine.csv", "--json").json
    own = {row["symbol"]: row for row in facts["decisions"]}
    worth = 10 * own["A"]["price"] + 500
    assert facts["capital"] == pytest.approx(worth)
    assert own["A"]["shares_now"] == pytest.approx(10)
    assert own["A"]["weight_now"] == pytest.approx(10 * own["A"]["price"] / worth)
    spent = sum(row["value"] + row["cost"] for row in facts["decisions"])
    assert facts["cash_target"] * (worth - facts["cost"]) == pytest.approx(500 - spent, abs=1e-6)
    for text, reason in {
        "symbol,shares\nZZZ,1\n": "ZZZ",
        "symbol,shares\nA,-1\n": "not negative",
        "symbol,shares\nA,1\nA,2\n": "twice",
        "name,amount\nA,1\n": "columns symbol and shares",
        "symbol,shares\nA,x\n": "row 2",
    }.items():
        (tmp_path / "bad.csv").write_text(text)
        done = lab.run("decide", trained, "--holdings", tmp_path / "bad.csv")
        assert (done.code, done.out) == (3, "")
        assert reason in done.err


def test_the_table_and_the_csv_say_what_the_json_says(lab: Lab, trained: Path) -> None:
    facts = lab.run("decide", trained, "--date", "2016-05-10", "--json").json
    rows = list(csv.DictReader(io.StringIO(lab.run("decide", trained, "--date", "2016-05-10", "--csv").out)))
    wanted = [row for row in facts["decisions"] if row["action"] != "none"]
    assert [row["symbol"] for row in rows] == [row["symbol"] for row in wanted]
    assert [float(row["shares"]) for row in rows] == [row["shares"] for row in wanted]
    shown = lab.run("decide", trained, "--date", "2016-05-10").out
    assert all(row["symbol"] in shown for row in wanted)
    assert "2016-05-11" in shown
    assert max(map(len, shown.splitlines())) <= 110


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda t: t.drop(columns="C"), "lacks C"),
        (lambda t: t.assign(C=t["C"].where(t.index != 390, t["C"] * 1.02)), "C close on 2016-06-30"),
        (lambda t: t.assign(A=t["B"], B=t["A"]), "A close on"),
        (lambda t: t.drop(index=380), "lacks 2016-06-16"),
        (lambda t: t.iloc[398:], "at least 5 days"),
        (lambda t: t.assign(D=t["D"].where(t.index != 391)), "D has no price on 2016-07-01"),
    ],
    ids=["a symbol", "a price", "swapped", "a day", "too short", "a hole"],
)
def test_prices_that_do_not_continue_are_refused_by_name(
    lab: Lab, finished_close_only: Path, tmp_path: Path, edit: object, reason: str
) -> None:
    table = pd.read_csv(finished_close_only.parent / "prices.csv")
    edit(table).to_csv(tmp_path / "other.csv", index=False)  # type: ignore[operator]
    done = lab.run("decide", finished_close_only, "--data", tmp_path / "other.csv")
    assert (done.code, done.out) == (3, ""), done.err
    assert reason in done.err


@pytest.fixture(scope="module")
def finished_close_only(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("close_only")
    write_prices(place / "prices.csv")
    overrides = [o for o in ORDERS if not o.startswith(("env.data", "env.synthetic"))]
    return lab.train("mine", (*overrides, f"env.data={place / 'prices.csv'}"), place)


def test_days_of_training_days_to_come_and_control_tasks_are_refused(
    lab: Lab, finished_close_only: Path
) -> None:
    for arguments, reason in {
        ("--date", "2015-06-01"): "trained on",
        ("--date", "2030-06-01"): "outside the known days",
        ("--date", "soon"): "not a date",
        ("--capital", "-5"): "positive",
    }.items():
        done = lab.run("decide", finished_close_only, *arguments)
        assert (done.code, done.out) == (2, "")
        assert reason in done.err


def test_a_run_without_its_data_takes_another_path_to_the_same_file(lab: Lab, tmp_path: Path) -> None:
    write_prices(tmp_path / "prices.csv")
    write_prices(tmp_path / "other.csv", 1.5)
    overrides = [o for o in ORDERS if not o.startswith(("env.data", "env.synthetic"))]
    run = lab.train(
        "mine", (*overrides, f"env.data={tmp_path / 'prices.csv'}"), tmp_path, "run.keep_data=false"
    )
    (tmp_path / "prices.csv").rename(tmp_path / "moved.csv")
    for command in ("evaluate", "decide", "export"):
        lost = lab.run(command, run)
        assert lost.code == 3, (command, lost.err)
        assert "env.data=PATH" in lost.err
        assert lab.run(command, run, f"env.data={tmp_path / 'other.csv'}").code == 2
        done = lab.run(command, run, f"env.data={tmp_path / 'moved.csv'}")
        assert done.code == 0, (command, done.err)
    assert not (run / "export" / "prices.parquet").exists()


def test_an_export_acts_as_its_run_does_and_runs_no_code(
    lab: Lab, trained: Path, exported: Path, tmp_path: Path
) -> None:
    shutil.copytree(exported, tmp_path / "out")
    ours, theirs = champion_of(trained), champion_of(tmp_path / "out")
    day = ours.market.holdout.start
    core = TradingCore(ours.market, ours.config, 1)
    seen = core.reset(day)
    compact = {"day": seen.day, "positions": seen.positions[0], "account": seen.account[0]}
    action = ours.act(compact)
    low, high = core.action_bounds
    assert ((action >= low) & (action <= high)).all()
    np.testing.assert_array_equal(theirs.act(compact), action)
    window = {
        "window": ours.market.features[day - 7 : day + 1],
        "known": ours.market.mask[day - 7 : day + 1],
        "positions": seen.positions[0],
        "account": seen.account[0],
    }
    np.testing.assert_allclose(ours.act(window), action, rtol=1e-5, atol=1e-6)
    (tmp_path / "out" / "champion.safetensors").write_bytes(b"something else")
    assert lab.run("decide", tmp_path / "out").code == 5


def test_the_graph_in_an_export_acts_alike_with_torch_alone(trained: Path, exported: Path) -> None:
    import torch

    champion = champion_of(trained)
    market, day = champion.market, champion.market.holdout.start
    seen = TradingCore(market, champion.config, 1).reset(day)
    inputs = np.concatenate([market.features, market.mask[:, :, None]], axis=2)[day : day + 1]
    graph = torch.export.load(exported / "champion.pt2").module()
    found = graph(
        torch.as_tensor(inputs, dtype=torch.float32),
        torch.as_tensor(seen.positions[0]).float(),
        torch.as_tensor(seen.account[0]),
    )
    compact = {"day": seen.day, "positions": seen.positions[0], "account": seen.account[0]}
    np.testing.assert_allclose(found.detach().numpy(), champion.act(compact), rtol=1e-4, atol=1e-5)


def test_the_card_and_the_facts_of_an_export_are_there(
    trained: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = json.loads((exported / "champion.json").read_text())
    assert facts["symbols"] == ["A", "B", "C", "D"]
    assert {"name", "mean", "deviation"} == set(facts["features"][0])
    assert str(trained) not in json.dumps(facts)
    assert facts["verdict"]["holdout"]["verdict"].startswith(("no evidence", "evidence"))
    (code,) = re.findall("```python\n(.*?)```", (exported / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(exported)
    names: dict[str, np.ndarray] = {}
    exec(code, names)
    assert np.isfinite(names["action"]).all()
