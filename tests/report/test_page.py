"""A report is made of every run directory there is: done, stopped, old, empty, damaged or a stranger's."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from eigen2.evaluation.panels import Against, Bars, Heat, Lines, Marks, Newest, Spread, Tree
from eigen2.harness.run import Run
from eigen2.report.charts import POINTS, thinned
from eigen2.report.page import write_report
from eigen2.report.panels import draw, shown_panels
from eigen2.report.reading import read_run

OLD = sorted(path.parent for path in (Path(__file__).parents[1] / "upgrade").glob("format*/*/run.json"))


def figures(page: str) -> list[dict[str, Any]]:
    found = re.search('<script type="application/json" id="figures">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return list(json.loads(found[1]))


def copied(source: Path, to: Path) -> Path:
    shutil.copytree(source, to)
    return to


@pytest.mark.parametrize("run", OLD, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_runs_of_all_formats_have_a_report_with_curves(run: Path, tmp_path: Path) -> None:
    page = write_report(copied(run, tmp_path / "run")).read_text(encoding="utf-8")
    assert "Learning" in page
    drawn = figures(page)
    assert len(drawn) >= 3
    assert all(trace["x"] for figure in drawn for trace in figure["data"] if trace["type"] == "scatter")
    assert page.count("data-figure=") == len(drawn)
    assert len(page) < 5_000_000


def test_what_cannot_be_read_is_said_and_the_rest_is_shown(tmp_path: Path) -> None:
    run = copied(OLD[0], tmp_path / "run")
    (run / "memory.jsonl").write_bytes(b"\xff\xfe rubbish\n")
    (run / "run.json").write_text("[1, 2")
    with open(run / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 99')
    page = write_report(run).read_text(encoding="utf-8")
    assert "memory.jsonl is damaged" in page
    assert "run.json is damaged" in page
    assert len(figures(page)) >= 3


def test_a_run_that_has_only_a_config_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    shutil.copy(OLD[0] / "config.yaml", tmp_path / "run")
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert "0 steps" in page
    assert figures(page) == []


def test_a_stranger_s_words_stay_words(tmp_path: Path) -> None:
    run = copied(OLD[0], tmp_path / "<b>run")
    evil = "</script><script>alert(1)</script>"
    metadata = json.loads((run / "run.json").read_text()) | {"command": evil, "panels": [7, {"kind": evil}, {"kind": "lines", "source": "metrics", "y": ["best_score"], "title": evil}]}  # fmt: skip
    (run / "run.json").write_text(json.dumps(metadata))
    (run / "metrics.jsonl").write_text(json.dumps({"step": 1, evil: 1.0, "best_score": 1}) + "\n" + json.dumps({"step": 2, evil: 2.0, "best_score": 2}) + "\n")  # fmt: skip
    page = write_report(run).read_text(encoding="utf-8")
    assert evil not in page
    assert evil in [trace["name"] for figure in figures(page) for trace in figure["data"]]


def test_evaluations_bring_their_own_panels(tmp_path: Path) -> None:
    run = Run(copied(OLD[0], tmp_path / "run"))
    import numpy as np

    from eigen2.evaluation.result import Evaluation

    days = np.array(["2020-01-01", "2020-01-02"], "datetime64[D]")
    series = {
        "returns": {"date": days, "champion": np.log([1.1, 0.5])},
        "weights": {"date": days, "A": np.array([0.0, 1.0])},
    }
    panels = (
        Lines("Growth", source="returns", x="date", growth=True),
        Lines("Drawdown", source="returns", x="date", drawdown=True),
        Heat("Held", "weights"),
    )
    run.add_evaluation(Evaluation({"split": "holdout", "verdict": "none"}, "", series, panels))
    view = read_run(run.path)
    evaluation = next(one for one in view.evaluations if one.facts.get("verdict") == "none")
    growth, drawdown, heat = (draw(panel, evaluation.series) for panel in evaluation.panels)
    assert growth is not None
    assert growth["data"][0]["y"] == pytest.approx([10.0, -45.0])
    assert growth["data"][0]["x"] == ["2020-01-01", "2020-01-02"]
    assert drawdown is not None
    assert drawdown["data"][0]["y"] == pytest.approx([0.0, -50.0])
    assert heat is not None
    assert heat["data"][0]["z"] == [[0.0, 1.0]]


def test_numbers_that_are_none_are_left_out() -> None:
    y = [1.0, float("nan"), 10**400, True, "7", None, 2]
    assert thinned(range(7), y) == ([0, 6], [1.0, 2])


def test_long_logs_are_thinned_out_and_keep_their_extremes() -> None:
    y = [0.0] * 100_000
    y[31_234], y[77_777] = 9.0, -9.0
    xs, ys = thinned(range(100_000), y)
    assert len(xs) <= POINTS + 2
    assert (max(ys), min(ys), xs[-1]) == (9.0, -9.0, 99_999)


def test_a_spread_and_a_tree_come_from_the_births() -> None:
    births: dict[str, list[Any]] = {
        "generation": [1, 1, 2, 2], "agent": [0, 1, 2, 1], "parents": [[], [], [0, 1], [1]],
        "operator": ["born", "born", "crossover", "elite"], "fitness": [1.0, 3.0, 5.0, None], "validation": [0.1, 0.2, 0.9, None],
    }  # fmt: skip
    spread = draw(Spread("fitness", "fitness").to_json(), {"lineage": births})
    assert spread is not None
    median = next(trace for trace in spread["data"] if trace["name"] == "median")
    assert (median["x"], median["y"]) == ([1, 2], [2.0, 5.0])
    tree = draw(Tree("ancestors", "validation").to_json(), {"lineage": births})
    assert tree is not None
    edges, line, best = tree["data"][0], tree["data"][1], tree["data"][-1]
    assert (line["x"][:2], line["y"][:2]) == ([1, 2], [0.2, 0.9])
    assert sorted(zip(edges["x"][::3], edges["y"][::3], strict=True)) == [(1, 0.1), (1, 0.2)]
    assert (best["x"], best["y"]) == ([2], [0.9])
    chosen = draw(
        Tree("ancestors", "validation", chosen="champion").to_json(),
        {"lineage": births | {"champion": [True, None, None, None]}},
    )
    assert chosen is not None
    assert chosen["data"][-1]["y"] == [0.1]
    assert draw(Tree("ancestors", "validation").to_json(), {"lineage": {}}) is None
    assert draw({"kind": "hologram", "source": "lineage"}, {"lineage": births}) is None


def test_a_symbol_is_chosen_and_its_trades_are_marked_on_its_price() -> None:
    sources: dict[str, dict[str, list[Any]]] = {
        "prices": {"date": ["d1", "d2", "d3"], "A": [1.0, 2.0, 3.0], "B": [5.0, None, 4.0]},
        "fills": {"date": ["d2", "d3", "d2"], "symbol": ["A", "A", "B"], "side": ["buy", "sell", "buy"], "price": [2.0, 3.0, 4.5]},
    }  # fmt: skip
    drawn = draw(Marks("Trades", "prices", "fills", told=("price",)).to_json(), sources)
    assert drawn is not None
    assert [choice["label"] for choice in drawn["choices"]] == ["A (2)", "B (1)"]
    assert drawn["chosen"] == 0
    curve, buys, sells = (drawn["data"][at] for at in drawn["choices"][0]["traces"])
    assert (curve["y"], buys["x"], buys["y"], sells["y"]) == ([1.0, 2.0, 3.0], ["d2"], [2.0], [3.0])
    assert buys["text"] == ["price 2"]
    # A fill on a day without a price has no place on the curve.
    assert len(drawn["choices"][1]["traces"]) == 1


def test_facts_of_an_evaluation_are_lines_across() -> None:
    table: dict[str, dict[str, list[Any]]] = {"metrics": {"step": [1, 2, 3], "eval_return": [None, 5.0, 7.0]}}
    panel = Lines("Return", ("eval_return",), levels=("random_return", "nosuch")).to_json()
    drawn = draw(panel, table, {"random_return": -3.0})
    assert drawn is not None
    assert (drawn["data"][1]["x"], drawn["data"][1]["y"]) == ([2, 3], [-3.0, -3.0])


def test_the_newest_records_are_a_table_and_two_columns_a_cloud() -> None:
    births: dict[str, list[Any]] = {
        "generation": [1, 2, 2, 2],
        "agent": [0, 5, 6, 7],
        "score": [9.0, None, 1.0, 3.0],
    }
    (shown,) = shown_panels(
        [Newest("Population", "score", ("agent", "score", "nosuch")).to_json()], {"lineage": births}, {}
    )
    assert (shown.title, shown.rows) == ("Population, generation 2", [["7", "3"], ["6", "1"], ["5", ""]])
    cloud = draw(
        Against("a", "x", "y").to_json(), {"metrics": {"step": [1, 2], "x": [1.0, None], "y": [2.0, 3.0]}}
    )
    assert cloud is not None
    assert (cloud["data"][0]["x"], cloud["data"][0]["y"]) == ([1.0], [2.0])
    bars = draw(Bars("b", "episodes", ("own",)).to_json(), {"episodes": {"own": [1.0, 1.0, 3.0]}})
    assert bars is not None
    assert (sum(bars["data"][0]["y"]), bars["data"][0]["y"][0]) == (3, 2)


@pytest.mark.parametrize(
    "kind", ["lines", "spread", "heat", "tree", "marks", "bars", "newest", "against", "film"]
)
def test_a_stranger_s_panel_of_any_kind_shows_nothing_or_something(kind: str) -> None:
    sources: dict[str, Any] = {"metrics": {"step": [1, 2], "a": ["x", None], "b": [{}, [1]]}}
    for panel in (
        {"kind": kind},
        {
            "kind": kind,
            "source": "metrics",
            "x": "a",
            "y": ["b"],
            "events": "metrics",
            "of": "b",
            "columns": ["b"],
        },
        {
            "kind": kind,
            "source": ["metrics"],
            "x": {},
            "y": "b",
            "levels": "ab",
            "told": ["a"],
            "id": "b",
            "score": "a",
        },
        {
            "kind": kind,
            "source": "metrics",
            "x": "step",
            "y": 7,
            "columns": 7,
            "levels": 7,
            "told": 7,
            "events": "metrics",
            "of": "a",
        },
    ):
        shown_panels([panel], sources, {"a": "b"})
