"""Static pictures of the charts of a report."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from eigen2.errors import ConfigError
from eigen2.evaluation.panels import Against, Bars, Heat, Lines, Marks, Spread, Tree
from eigen2.report.panels import shown_panels
from eigen2.report.reading import read_run
from eigen2.report.sections import sections
from eigen2.report.shown import Section
from eigen2.report.stills import write_stills

RUN = Path(__file__).parents[1] / "upgrade" / "format2" / "erl_weights"


def test_every_chart_of_a_run_becomes_a_picture(tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / "run")
    parts = sections(read_run(tmp_path / "run"))
    charts = sum(shown.figure is not None for part in parts for shown in part.shown)
    found = write_stills(parts, tmp_path / "pictures")
    assert len(found) == charts >= 3
    assert found[0].name.startswith("01-")
    for path in found:
        grey = np.asarray(Image.open(path).convert("L"))
        assert grey.min() < 128 < grey.max()


def test_every_kind_of_chart_can_be_a_picture(tmp_path: Path) -> None:
    days = ["2020-01-01", "2020-01-02"]
    births: dict[str, list[Any]] = {
        "generation": [1, 2],
        "agent": [0, 1],
        "parents": [[], [0]],
        "operator": ["born", "elite"],
        "score": [1.0, 2.0],
    }
    sources: dict[str, dict[str, list[Any]]] = {
        "growth": {"date": days, "own": [1.0, 2.0], "low": [0.0, 0.0], "high": [2.0, 4.0]},
        "prices": {"date": days, "A": [1.0, None]}, "fills": {"date": days[:1], "symbol": ["A"], "side": ["buy"]},
        "lineage": births, "metrics": {"step": [1, 2], "a": [1.0, 2.0], "b": [3.0, None]},
    }  # fmt: skip
    panels = [
        Lines("band", ("own",), source="growth", x="date", low="low", high="high"), Heat("heat", "growth"),
        Marks("marks", "prices", "fills"), Spread("spread", "score"), Tree("tree", "score"), Against("against", "a", "b"),
        Bars("bars", "metrics", ("a", "b")),
    ]  # fmt: skip
    shown = shown_panels([panel.to_json() for panel in panels], sources, {})
    assert len(shown) == len(panels)
    assert len(write_stills([Section("<All> / of them", shown)], tmp_path)) == len(panels)
    assert {path.parent for path in tmp_path.rglob("*.png")} == {tmp_path}


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--png"):
        write_stills([], tmp_path / "file" / "below")
