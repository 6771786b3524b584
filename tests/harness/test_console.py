"""What people see: a quiet box on a terminal, one line per step elsewhere, nothing of colour codes in a log."""

import io
import os
from typing import Any

import pytest
from rich.console import Console

from eigen2.harness.console import PatientConsole, TrainingConsole

METRICS = {"fitness_best": 0.25, "fitness_mean": -0.5, "best_score": 0.125, "env_steps": 100.0, "secret": 9.0}


class Declared:
    """What the console asks of a trainer."""

    steps = 25
    phases = ("evaluate", "train")
    headline = ("fitness_best", "fitness_mean", "eval_return")


def console(out: io.StringIO, step: int = 0, **options: Any) -> TrainingConsole:
    screen = TrainingConsole(Console(file=out, **options))
    screen.begin("my run", Declared(), step)  # type: ignore[arg-type]
    return screen


def test_a_log_gets_one_line_per_step_whatever_its_width() -> None:
    out = io.StringIO()
    with console(out, width=20) as screen:
        screen.phase("evaluate", 1, 4)
        screen.stepped(1, METRICS)
        screen.stepped(2, METRICS | {"env_steps": 300.0})
    first, second = out.getvalue().splitlines()
    assert first.startswith("1/25  fitness_best 0.25  fitness_mean -0.5  best_score 0.125")
    assert "steps/s" not in first
    assert "steps/s" in second
    assert "RSS" in second
    assert "left" in second
    assert "\x1b" not in out.getvalue()


def test_a_terminal_gets_a_box_with_the_phase() -> None:
    out = io.StringIO()
    with console(out, force_terminal=True, width=80) as screen:
        screen.phase("train", 1, 4)
        screen.stepped(1, METRICS)
        screen.say("Checkpoints cannot be written")
    assert "my run" in out.getvalue()
    assert "train 2/2" in out.getvalue()
    assert "eval return" not in out.getvalue()
    assert "Checkpoints cannot be written" in out.getvalue()


def test_a_resumed_run_counts_from_where_it_stands() -> None:
    out = io.StringIO()
    with console(out, step=10) as screen:
        screen.stepped(11, METRICS)
    assert out.getvalue().startswith("11/25")


def test_a_path_with_brackets_is_shown_as_it_is() -> None:
    out = io.StringIO()
    console(out).say("/runs/[bold]a[/bold] is full")
    assert out.getvalue() == "/runs/[bold]a[/bold] is full\n"


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = io.StringIO()
    with console(out, width=200, force_terminal=True) as screen:
        screen.stepped(1, METRICS)
    assert out.getvalue().startswith("1/25  fitness_best 0.25")


def test_a_reader_that_leaves_does_not_stop_a_run() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as out:
        screen = TrainingConsole(PatientConsole(file=out))
        screen.begin("my run", Declared(), 0)  # type: ignore[arg-type]
        for step in range(3):
            screen.stepped(step, METRICS)
            screen.say("news")
