"""What people see: a quiet box on a terminal, one line per step elsewhere, nothing of colour codes in a log."""

import io

from rich.console import Console

from eigen2.runs.console import TrainingConsole

METRICS = {"fitness_best": 0.25, "fitness_mean": -0.5, "champion": 0.125, "env_steps": 100.0, "secret": 9.0}


def test_a_log_gets_one_line_per_step_whatever_its_width() -> None:
    out = io.StringIO()
    with TrainingConsole(Console(file=out, width=20), "run", 25) as screen:
        screen.phase("evaluate", 1, 4)
        screen.stepped(1, METRICS)
        screen.stepped(2, METRICS | {"env_steps": 300.0})
    first, second = out.getvalue().splitlines()
    assert first.startswith("1/25  fitness_best 0.25  fitness_mean -0.5  champion 0.125")
    assert "steps/s" not in first
    assert "steps/s" in second
    assert "RSS" in second
    assert "left" in second
    assert "\x1b" not in out.getvalue()


def test_a_terminal_gets_a_box_with_the_phase() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    with TrainingConsole(console, "my run", 25) as screen:
        screen.phase("evaluate", 1, 4)
        screen.stepped(1, METRICS)
        screen.say("Checkpoints cannot be written")
    assert "my run" in out.getvalue()
    assert "Checkpoints cannot be written" in out.getvalue()


def test_a_resumed_run_counts_from_where_it_stands() -> None:
    out = io.StringIO()
    with TrainingConsole(Console(file=out), "run", 25, first=10) as screen:
        screen.stepped(11, METRICS)
    assert out.getvalue().startswith("11/25")


def test_a_path_with_brackets_is_shown_as_it_is() -> None:
    out = io.StringIO()
    TrainingConsole(Console(file=out), "run", 1).say("/runs/[bold]a[/bold] is full")
    assert out.getvalue() == "/runs/[bold]a[/bold] is full\n"
