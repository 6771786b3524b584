"""The examples are short, and do what they say."""

from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from command_lab import ORDERS

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
ELSEWHERE = {"own_algorithm": "tests/plugin", "prices_like_yfinance": "tests/harness/test_pages.py"}
"""Examples that other tests run."""


def main_of(name: str) -> Callable[..., Any]:
    (path,) = [path for path in EXAMPLES if path.stem == name]
    main: Callable[..., Any] = run_path(str(path))["main"]
    return main


def test_every_example_is_run() -> None:
    here = {"train_and_evaluate", "load_and_act", "replay_alone", "trading_environment"}
    assert {path.stem for path in EXAMPLES} == here | ELSEWHERE.keys()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_has_less_than_60_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60


def test_training_evaluating_and_acting_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main_of("train_and_evaluate")([*ORDERS, "env.data=planted_reversal"])
    said = capsys.readouterr().out
    assert "equal weight" in said
    assert "evidence of skill" in said
    total = main_of("load_and_act")("runs/erl_planted_reversal_seed7")
    assert f"eigen2/Trading-v0: return {total:.4f}" in capsys.readouterr().out
    assert abs(total) < 1.0


def test_the_replay_alone(capsys: pytest.CaptureFixture[str]) -> None:
    main_of("replay_alone")()
    said = capsys.readouterr().out
    assert "transitions 600 | 3-step rewards (64,)" in said
    assert "sequences (9, 16, 3)" in said
    assert "the next sample is identical" in said


def test_the_trading_environment(capsys: pytest.CaptureFixture[str]) -> None:
    main_of("trading_environment")("random_walk", steps=60)
    said = capsys.readouterr().out
    assert "'window': (8, 12, 12)" in said
    assert "SAC's first action" in said
