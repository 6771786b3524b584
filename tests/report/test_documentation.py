"""What the page about looking at runs shows is what happens."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from command_lab import ORDERS, WORLD_MODEL, Lab

from eigen2.envs.control.camera import choose_renderer
from eigen2.errors import ConfigError

PAGE = Path(__file__).parents[2] / "docs" / "look.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = re.findall("```\n(eigen2 .*?)\n```", TEXT, re.DOTALL)[0].splitlines()


def can_draw() -> bool:
    try:
        choose_renderer()
    except ConfigError:
        return False
    return True


def test_the_commands_on_the_page_work(lab: Lab, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    lab.train("pwm_tiny_pendulum_seed7", WORLD_MODEL, runs)
    shutil.copytree(lab.train("erl_sp20_seed7", ORDERS, runs), runs / "erl_sp20_seed8")
    for command in COMMANDS:
        _, verb, *arguments = shlex.split(command)
        # The dashboard serves until it is stopped: tests/browser has it.
        if verb == "dashboard" or (verb == "film" and not can_draw()):
            continue
        done = lab.run(verb, *arguments, cwd=tmp_path)
        assert done.code == 0, (command, done.err)
    assert (runs / "erl_sp20_seed7" / "report.html").is_file()
    assert (tmp_path / "compare.html").is_file()


@pytest.mark.parametrize("picture", re.findall(r"\]\((pictures/.*?)\)", TEXT))
def test_the_pictures_on_the_page_are_there(picture: str) -> None:
    assert (PAGE.parent / picture).is_file()
