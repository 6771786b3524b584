"""What the page about PWM shows is what happens."""

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_lab import WORLD_MODEL, Lab

PAGE = (Path(__file__).parents[2] / "docs" / "pwm.md").read_text(encoding="utf-8")
PYTHON = re.findall("```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall("```\n(eigen2 .*?)\n```", PAGE, re.DOTALL)
SMALL = [override for override in WORLD_MODEL if not override.startswith(("alg=", "env="))]


def test_the_commands_and_the_code_on_the_page_work(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task in ("pendulum", "dflex_cartpole"):
        lab.train(f"pwm_tiny_{task}_seed7", ("alg=pwm_tiny", f"env={task}", *SMALL), tmp_path / "runs")
    more = ["alg.pretrain.updates=2", "alg.multitask.policy_iterations=1"]
    for command in COMMANDS:
        _, verb, *arguments = shlex.split(command)
        done = lab.run(verb, *arguments, *([*SMALL, *more] if verb == "train" else []), cwd=tmp_path)
        assert done.code == 0, (command, done.err)
    monkeypatch.chdir(tmp_path)
    for code in PYTHON:
        names: dict[str, Any] = {}
        exec(code, names)
        assert np.isfinite(names.get("total", 0.0))
    overrides = ("alg=pwm_tiny", "env=pendulum", *SMALL, "alg.pretrain.replay=my_data", more[0])
    assert lab.run("train", *overrides, cwd=tmp_path).code == 0
    assert lab.run("replay", "info", "my_data", "--json", cwd=tmp_path).json["transitions"] == 400
