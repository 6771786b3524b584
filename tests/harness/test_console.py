"""What people see: a quiet box on a terminal, one line per step elsewhere, nothing of colour codes in a log."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from eigen2.harness import progress
from eigen2.harness.console import PatientConsole, TrainingConsole, sparkline
from eigen2.harness.progress import transferring, working

METRICS = {"fitness_best": 0.25, "fitness_mean": -0.5, "best_score": 0.125, "env_steps": 100.0, "secret": 9.0}


class Declared:
    """What the console asks of a trainer."""

    steps, step_name = 25, "generation"
    units = {"fitness_best": "log return"}
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
    assert first.startswith(
        "generation  1/25  fitness_best 0.25        fitness_mean -0.5        best_score 0.125"
    )
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
    assert out.getvalue().startswith("generation 11/25")


def test_a_path_with_brackets_is_shown_as_it_is() -> None:
    out = io.StringIO()
    console(out).say("/runs/[bold]a[/bold] is full")
    assert out.getvalue() == "/runs/[bold]a[/bold] is full\n"


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = io.StringIO()
    with console(out, width=200, force_terminal=True) as screen:
        screen.stepped(1, METRICS)
    assert out.getvalue().startswith("generation  1/25  fitness_best 0.25")


def test_a_reader_that_leaves_does_not_stop_a_run() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as out:
        screen = TrainingConsole(PatientConsole(file=out))
        screen.begin("my run", Declared(), 0)  # type: ignore[arg-type]
        for step in range(3):
            screen.stepped(step, METRICS)
            screen.say("news")


def boxed(screen: TrainingConsole, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(screen.box())
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_box_fits_names_its_steps_and_cuts_no_number(width: int) -> None:
    screen = console(io.StringIO(), force_terminal=True, width=width)
    for step in range(1, 25):
        screen.stepped(step, METRICS | {"fitness_best": -1234.5678e10 * step})
    lines = boxed(screen, width)
    assert {len(line) for line in lines} == {min(width, 76)}
    text = "\n".join(lines)
    assert "generation" in text
    assert "step " not in text
    assert "24/25" in text
    assert "-2.963e+14" in text
    assert ("log return" in text) == (width > 40)
    assert any(block in text for block in "▁█") == (width > 40)


def test_nothing_in_the_box_moves_while_a_run_goes_on() -> None:
    screen = console(io.StringIO(), force_terminal=True, width=80)
    screen.phase("evaluate", 0, 4)
    screen.stepped(1, METRICS | {"eval_return": 5.0})
    first = boxed(screen, 80)
    screen.phase("train", 3, 4)
    screen.stepped(
        12, {"fitness_best": -1.5e-7, "fitness_mean": 123456.0, "best_score": 0.1, "env_steps": 1e9}
    )
    second = boxed(screen, 80)
    assert len(first) == len(second)
    assert [line.find("log return") for line in first] == [line.find("log return") for line in second]
    assert any("eval return" in line and "5" in line for line in second), "what was known keeps its place"


def test_lines_below_each_other_are_a_table() -> None:
    out = io.StringIO()
    with console(out, width=200) as screen:
        screen.stepped(9, METRICS)
        screen.stepped(10, METRICS | {"fitness_best": -1.234567e-12})
    first, second = out.getvalue().splitlines()
    assert first.index("fitness_mean") == second.index("fitness_mean")


def test_a_quiet_console_shows_warnings_alone() -> None:
    out = io.StringIO()
    screen = TrainingConsole(PatientConsole(hushed=True, file=out, force_terminal=True))
    screen.begin("my run", Declared(), 0)  # type: ignore[arg-type]
    screen.works("loading")
    with screen:
        screen.mention("run x")
        screen.stepped(1, METRICS)
        screen.say("the disk is full")
    assert out.getvalue() == "the disk is full\n"


def test_a_long_job_has_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    for bar in (True, False):
        out = io.StringIO()
        console = Console(file=out, force_terminal=True, width=80) if bar else Console(file=out)
        with working(console, "reading [b]") as show:
            show(1, 0)
            show(3, 4)
        assert ("━" in out.getvalue()) == bar
        assert ("reading [b]: 3 of 4" in out.getvalue()) != bar
    monkeypatch.setenv("TERM", "dumb")
    out = io.StringIO()
    with transferring(Console(file=out, force_terminal=True), "pulling") as show:
        show(1_000_000, 2_000_000)
    assert out.getvalue() == "pulling: 1.0 MB of 2.0 MB\n"
    out = io.StringIO()
    with working(PatientConsole(hushed=True, file=out), "reading") as show:
        show(3, 4)
    assert out.getvalue() == ""


def test_a_job_before_the_box_ends_when_the_box_begins() -> None:
    out = io.StringIO()
    screen = console(out, force_terminal=True, width=80)
    screen.works("loading sp20")
    with screen:
        screen.stepped(1, METRICS)
    screen.works("evaluating on validation")
    screen.rests()
    screen.rests()
    assert "loading sp20" in out.getvalue()
    assert "evaluating on validation" in out.getvalue()


def test_a_terminal_without_unicode_gets_plain_letters() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with console(out, force_terminal=True, width=80) as screen:  # type: ignore[arg-type]
        screen.phase("train", 1, 4)
        for step in range(1, 4):
            screen.stepped(step, METRICS | {"fitness_best": step / 2})
    out.flush()
    assert b"_~#" in out.buffer.getvalue()


def test_sparklines() -> None:
    assert sparkline([0.0, 1.0, 2.0, 7.0], 10) == "▁▂▃█"
    assert sparkline([0.0, 1.0, 2.0, 7.0], 2) == "▁█"
    assert sparkline([5.0, 5.0], 10) == "▄▄"
    assert sparkline([], 10) == sparkline([1.0], 0) == ""
    assert len(sparkline([-1e308, 1e308, 0.0], 10)) == 3


def test_something_is_seen_before_anything_heavy_is_loaded(tmp_path: Path) -> None:
    """The first line comes before torch is imported."""
    code = (
        "import sys\n"
        "from importlib.abc import MetaPathFinder\n"
        "class Watch(MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('torch', 'numpy', 'hydra'):\n"
        "            sys.stdout.write(f'import {name}\\n'); sys.stdout.flush(); sys.exit(0)\n"
        "sys.meta_path.insert(0, Watch())\n"
        "sys.argv = ['eigen2', 'train', 'seed=1']\n"
        "from eigen2.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"TTY_COMPATIBLE": "1", "TERM": "xterm", "NO_COLOR": "1"},
    )  # fmt: skip
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith("eigen2 0."), done
    assert second.startswith("import ")
