"""An hour of everything at once: random kills, signals, faults, moves, readers and repairs against a model.

`./run test --slow soak` takes 60 minutes; EIGEN2_SOAK_MINUTES and EIGEN2_SOAK_SEED choose others.
"""

import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from command_lab import ORDERS, PENDULUM, WORLD_MODEL, Lab, compiled
from soak_actions import Soak
from soak_world import World

SMALL_DISK = "24m"


def lab_prefix(base: Path) -> tuple[tuple[str, ...], Path | None]:
    """Under it commands find a disk that fails on request and, where one may mount, one that is soon full."""
    library = compiled("failing_calls.c", base)
    if library is None:
        pytest.skip("the soak needs a C compiler and Linux, for a disk that fails on request")
    preload = ("env", f"LD_PRELOAD={library}")
    small = base / "small"
    small.mkdir()
    mount = f'mount -t tmpfs -o size={SMALL_DISK} none "$0" && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", mount, str(small))
    may = os.geteuid() == 0 and shutil.which("unshare") is not None
    if may and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
        return (*prefix, *preload), small
    return preload, None


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_soak(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    minutes = float(os.environ.get("EIGEN2_SOAK_MINUTES", "60"))
    seed = int(os.environ.get("EIGEN2_SOAK_SEED", str(secrets.randbelow(2**31))))
    base = Path(tempfile.mkdtemp(prefix="eigen2-soak-"))
    monkeypatch.setenv("EIGEN2_LEDGER", str(base / "holdout-uses.jsonl"))

    def tell(sentence: str) -> None:
        with capsys.disabled():
            print(sentence, flush=True)  # noqa: T201

    tell(f"\nsoak: seed {seed}, {minutes:g} minutes, in {base}")
    prefix, small = lab_prefix(base)
    (base / "outputs").mkdir()
    began = time.monotonic()
    with Lab(base / "outputs", prefix=prefix, warm_up=(ORDERS, PENDULUM, WORLD_MODEL)) as lab:
        soak = Soak(world := World(lab, base, seed, small, tell))
        soak.run(60 * minutes)
    facts = {
        "seed": seed, "minutes": round((time.monotonic() - began) / 60, 1), "commands": world.commands,
        "actions": dict(world.counts), "exit_codes": dict(world.codes), "small_disk": small is not None,
        "wrong": len(world.problems),
    }  # fmt: skip
    tell(soak.table() + "\n" + json.dumps(facts))
    if world.problems:
        tell(f"soak: what is wrong is kept in {base}")
    else:
        shutil.rmtree(base)
    assert not world.problems, (
        f"{len(world.problems)} wrong with seed {seed}; see above and {base / 'evidence'}"
    )
