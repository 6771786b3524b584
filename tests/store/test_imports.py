"""Looking at checkpoints and at a stored replay needs no torch: such commands answer at once."""

import subprocess
import sys

import pytest

LIGHT = [
    *(f"eigen2.store.{name}" for name in ("objects", "memory", "manifest", "checkpoints", "integrity")),
    *(f"eigen2.store.{name}" for name in ("retention", "disk", "durable", "background")),
    *(f"eigen2.replay{name}" for name in ("", ".config", ".snapshot")),
]


@pytest.mark.parametrize("modules", [LIGHT, ["eigen2.replay.config"]], ids=["all", "config"])
def test_looking_needs_no_torch(modules: list[str]) -> None:
    heavy = {"torch", "gymnasium", "pandas"} | ({"numpy"} if len(modules) == 1 else set())
    script = (
        f"import sys, {', '.join(modules)}; sys.exit(', '.join(sorted({heavy} & set(sys.modules))) or None)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"imported: {done.stderr}"
