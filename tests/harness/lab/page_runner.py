"""The pages as tests see them: blocks of code by language, and a reader who types every command.

A block of ```sh holds commands, one a line; ```text is output. The tables below say where a test does something else than
a reader would: it trains with less effort, and has no cloud account.
"""

import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer
from command_lab import ALGORITHM, ORDERS, RANDOM_SEARCH, SB3, SMALL_PWM, WORLD_MODEL, Done, Lab

from eigen2.cli import _optional_resume, app

ROOT = Path(__file__).parents[3]
PAGES = tuple(
    sorted(
        [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
        + [*ROOT.glob("docs/*.md"), *ROOT.glob("research/*.md")]
    )
)
LANGUAGES = {"sh", "text", "python", "toml"}
SCRIPT_VERBS = {"setup", "setup-test-system", "test", "check", "bench"}
"""Of the script `run`. They install packages, or take hours: their words are checked, and they are not run."""
NOT_RUN = {
    "dashboard": "serves until it is stopped; tests/report and tests/browser ask it for its pages",
    "doctor": "half a minute; tests/harness/test_doctor.py runs its parts",
}

MARKET_EFFORT = (
    "env.start=2017-01-01",
    *(word for word in ORDERS if not word.startswith(("env.data", "env.synthetic"))),
)
EFFORT = {
    "alg=erl_ddpg": (*MARKET_EFFORT, "alg.learners=4"),
    "alg=pwm_tiny": (*SMALL_PWM, "alg.pretrain.updates=2", "alg.multitask.policy_iterations=1"),
    "alg=sb3_sac": SB3["sac"],
    "alg=random_search": RANDOM_SEARCH,
    "env=gym": (*ALGORITHM, "env.max_episode_steps=20"),
}
"""Settings that `train` and `plan` get after those on the page, by the first of these words that is there; else MARKET_EFFORT."""
INSTEAD = {
    r"(gs|s3)://bucket/runs": "file://{directory}/bucket",
    r"track=tensorboard,wandb,trackio": "track=tensorboard",
}
"""Words of a page, and what a test without accounts types."""
ELSEWHERE = re.compile(r"^(train --resume|sync pull) \S+://")
"""Commands for another machine: they are typed in a directory that knows nothing of the first one."""
RUNS = {
    "erl_sp20_seed7": ORDERS,
    "erl_sp20_seed8": (*ORDERS, "seed=8"),
    "pwm_tiny_pendulum_seed7": WORLD_MODEL,
    "pwm_tiny_dflex_cartpole_seed7": (*WORLD_MODEL, "env=dflex_cartpole"),
}
"""Runs that a page may name without having trained them."""


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    fence, start, lines = "", 0, page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            continue
        if start:
            found.append(Block(fence, "\n".join(lines[start : number - 1]), start))
            start = 0
        else:
            fence, start = line[3:].strip(), number
    assert start == 0, f"{page.name}: the block of line {start} does not end"
    return found


def commands(page: Path) -> list[list[str]]:
    """Every line of the shell blocks, as words."""
    texts = [block.text for block in blocks(page) if block.language == "sh"]
    lines = [shlex.split(line, comments=True) for text in texts for line in text.splitlines()]
    return [line for line in lines if line]


def python_blocks(page: Path) -> list[str]:
    return [block.text for block in blocks(page) if block.language == "python"]


def inline_commands(page: Path) -> Iterator[list[str]]:
    """Commands in running text: `eigen2 train --resume`."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for found in re.findall(r"`((?:eigen2|\./run) [^`]+)`", text):
        yield shlex.split(found)


def require_accepted(words: Sequence[str]) -> None:
    """The program exists, and takes these arguments; nothing is run."""
    program, *rest = words
    if program == "python":
        assert (ROOT / rest[0]).is_file(), words
        return
    assert program in ("eigen2", "./run"), words
    if rest == ["X"]:
        return
    if program == "./run" and rest[0] in SCRIPT_VERBS:
        _require_script_verb(rest[0], rest[1:])
        return
    found: Any = typer.main.get_command(app)
    name, rest = "", _optional_resume(rest)
    while rest and rest[0] in getattr(found, "commands", ()):
        name, found, rest = rest[0], found.commands[rest[0]], rest[1:]
    assert name, f"{' '.join(words)}: there is no such command"
    found.make_context(name, rest)


def _require_script_verb(verb: str, rest: list[str]) -> None:
    if verb == "bench":
        script = ROOT / "bench" / f"{rest[0]}.py"
        assert rest[0] == "NAME" or script.is_file(), f"there is no benchmark {rest[0]}"
        if script.is_file() and len(rest) > 1:
            _require_parsed(script, rest[1:])
    elif verb == "test" and rest and rest != ["--coverage"]:
        assert rest[0] == "--slow", rest
        modules = "".join(
            str(path) + path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py")
        )
        assert rest[1] == "NAME" or rest[1] in modules, f"there is no slow test {rest[1]}"
    else:
        assert rest in ([], ["dev"], ["bench"], ["--coverage"]), rest


class _Parsed(Exception):
    """The script took its arguments."""


def _require_parsed(script: Path, arguments: list[str]) -> None:
    """A benchmark is run until it has read its arguments."""
    import argparse

    parse = argparse.ArgumentParser.parse_args

    def parsed(parser: argparse.ArgumentParser, *_: object) -> argparse.Namespace:
        parse(parser, arguments)
        raise _Parsed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", parsed)
        patch.setattr(sys, "argv", [str(script), *arguments])
        with pytest.raises(_Parsed):
            runpy.run_path(str(script), run_name="__main__")


@dataclass
class Reader:
    """Types the commands of pages in `directory`."""

    lab: Lab
    directory: Path
    trained: Path
    """Where runs are kept that several pages name."""
    said: dict[str, str] = field(default_factory=dict)
    """What each command printed."""

    def type(self, words: Sequence[str]) -> None:
        require_accepted(words)
        program, *rest = words
        if program == "python":
            self._python(*rest)
        elif not (program == "./run" and rest[0] in SCRIPT_VERBS or rest[0] in NOT_RUN):
            self._provide(rest)
            done = self._typed(rest)
            assert done.code == 0, (words, done.err)
            self.said[" ".join(rest)] = done.out

    def _typed(self, words: Sequence[str]) -> Done:
        where = self.directory
        if ELSEWHERE.match(" ".join(words)):
            where = self.directory / "another machine"
            shutil.rmtree(where, ignore_errors=True)
            where.mkdir()
        typed = [*words, *less_effort(words)]
        for pattern, instead in INSTEAD.items():
            typed = [re.sub(pattern, instead.format(directory=self.directory), word) for word in typed]
        return self.lab.run(*typed, cwd=where)

    def _python(self, script: str, *arguments: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.directory)
            patch.setattr(sys, "argv", [script, *arguments])
            runpy.run_path(str(ROOT / script), run_name="__main__")

    def _provide(self, words: Sequence[str]) -> None:
        """Runs that are named and not there."""
        for name, overrides in RUNS.items():
            named = any(re.search(rf"(^|[/\[,=]){name}\b", word) and "://" not in word for word in words)
            if not named or (self.directory / "runs" / name).exists():
                continue
            if not (self.trained / name).exists():
                self.lab.train(name, overrides, self.trained)
            shutil.copytree(self.trained / name, self.directory / "runs" / name)


def less_effort(words: Sequence[str]) -> list[str]:
    """What a test adds to a command, so that it takes seconds."""
    if words[0] not in ("train", "plan") or {"--resume", "--show-config"} & set(words):
        return []
    chosen = next((EFFORT[word] for word in EFFORT if word in words), MARKET_EFFORT)
    return [word for word in chosen if not word.startswith(("alg=", "env="))]
