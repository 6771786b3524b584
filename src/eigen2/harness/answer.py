"""How a command answers: the facts on stdout, everything else on stderr."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TextIO

import typer
from rich.console import Console

from eigen2.errors import DamagedStateError

_answer: TextIO | None = None
"""Where JSON goes while a command keeps stdout for it."""


def replace_closed_streams() -> None:
    """Without this a command started with stdout closed (`>&-`) would open a file of a run as number 1, and what a
    library prints would go into it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            os.set_inheritable(number, True)
            setattr(
                sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False)
            )


@contextmanager
def answering() -> Iterator[TextIO]:
    """Yields what standard output is; what is printed in between, also by native code and workers, goes to stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(kept, "w", encoding="utf-8", closefd=False) as answer:
            yield answer
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def keep_stdout(context: typer.Context, as_json: bool) -> bool:
    """While a command that prints JSON runs, whatever else prints, such as an environment, prints to stderr."""
    # Not twice for `runs --json clean --json`, nor where somebody has replaced or closed it.
    if as_json and _answer is None:
        with suppress(AttributeError, OSError):
            if sys.stdout.fileno() == 1:
                context.with_resource(_kept())
    return as_json


@contextmanager
def _kept() -> Iterator[None]:
    global _answer
    with answering() as _answer:
        try:
            yield
        finally:
            _answer = None


def console_of(as_json: bool, quiet: bool = False) -> Console:
    """Progress goes to stdout, unless that is kept for JSON."""
    from eigen2.harness.progress import PatientConsole

    return PatientConsole(stderr=as_json, hushed=quiet)


def working(what: str, quiet: bool = False) -> AbstractContextManager[Any]:
    """A bar on stderr while a command works."""
    from eigen2.harness.progress import working

    return working(console_of(True, quiet), what)


def greet(console: Console) -> None:
    """Something to see on a terminal before libraries are loaded, which takes seconds on a cold disk."""
    from importlib.metadata import version

    from eigen2.harness.progress import is_hushed

    if console.is_terminal and not is_hushed(console):
        console.print(f"eigen2 {version('eigen2')}", highlight=False)


def warn(sentence: str) -> None:
    """Something to know that is neither the result nor a failure."""
    Console(stderr=True).print(sentence, highlight=False, markup=False, soft_wrap=True)


def print_json(facts: dict[str, Any]) -> None:
    from eigen2.harness.journal import plain

    write_json(plain(facts))


def write_json(facts: Any) -> None:
    out = _answer or sys.stdout
    out.write(json.dumps(facts, allow_nan=False) + "\n")
    out.flush()


def conclude(facts: dict[str, Any], good: str, ok: bool, as_json: bool, problems: tuple[str, ...]) -> None:
    if as_json:
        print_json(facts)
    elif ok:
        typer.echo(good)
    if not ok:
        raise DamagedStateError("; ".join(problems))
