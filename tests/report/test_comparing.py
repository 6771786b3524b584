"""Comparisons over seeds: groups, robust means, and what a difference is worth."""

import json
from pathlib import Path

import numpy as np
import pytest

from eigen2.errors import ConfigError
from eigen2.report.comparing import compare_facts, compare_sections, grouped, iqm
from eigen2.report.page import page
from eigen2.report.reading import RunView, read_run


def run(root: Path, name: str, seed: int, rate: float, scores: list[float]) -> RunView:
    (root / name).mkdir()
    (root / name / "config.yaml").write_text(
        f"seed: {seed}\nalg:\n  kind: x\n  rate: {rate}\nrun:\n  root: {root}\n"
    )
    lines = [json.dumps({"step": step + 1, "best_score": score}) for step, score in enumerate(scores)]
    (root / name / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return read_run(root / name)


@pytest.fixture
def views(tmp_path: Path) -> list[RunView]:
    slow = [run(tmp_path, f"slow_seed{seed}", seed, 0.1, [0.0, float(seed)]) for seed in range(8)]
    fast = [run(tmp_path, f"fast_seed{seed}", seed, 0.2, [0.0, float(seed) + 4]) for seed in range(8)]
    return slow + fast


def test_runs_that_differ_in_their_seed_are_one_group(views: list[RunView]) -> None:
    assert [(group.label, len(group.runs)) for group in grouped(views)] == [("slow", 8), ("fast", 8)]


def test_the_interquartile_mean_leaves_out_the_extremes() -> None:
    assert iqm(np.array([-1e9, 1.0, 2.0, 3.0, 4.0, 1e9, 2.0, 3.0])) == pytest.approx(2.5)


def test_facts_and_page(views: list[RunView]) -> None:
    facts = compare_facts(views, "best_score")
    slow, fast = facts["groups"]
    assert (slow["iqm"], fast["iqm"]) == (3.5, 7.5)
    assert slow["interval"][0] < 3.5 < slow["interval"][1]
    improvement = facts["improvement"][0]
    # Of 64 pairs slow wins 6 and ties 4.
    assert improvement["probability"] == pytest.approx(8 / 64)
    assert improvement["interval"][1] < 0.5
    assert set(facts["differences"]) == {"seed", "alg.rate"}
    text = page("c", "c", [], compare_sections(views, facts))
    assert "Probability of improvement" in text
    assert "Fewer than five" not in text


def test_an_unknown_metric_is_refused_with_those_there_are(views: list[RunView]) -> None:
    with pytest.raises(ConfigError, match="there are: best_score, step"):
        compare_facts(views, "nosuch")


def test_few_runs_are_said_to_say_little(views: list[RunView]) -> None:
    parts = compare_sections(views[:1], compare_facts(views[:1], "best_score"))
    assert "say little" in parts[0].notes[0]


def test_scores_of_different_environments_are_said_to_be_so(views: list[RunView]) -> None:
    views[0].config["env"] = {"data": "other"}
    facts = compare_facts(views[:2], "best_score")
    assert any("env.data" in note for note in compare_sections(views[:2], facts)[0].notes)
