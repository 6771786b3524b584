"""Makes the small run directories that later versions must still resume: `python tests/upgrade/make.py DIR [KIND...]`.

Each run is stopped by a signal after its second step. Beside it lies `expected.json`: what the same version computes
when nothing stops it, so that a later version can prove that it goes on as this one would have.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "harness" / "lab"))

from command_lab import FLOW_WORLD_MODEL, ORDERS, PENDULUM, SB3, WEIGHTS, WORLD_MODEL, Lab, Moment  # noqa: E402

from eigen2.store.seals import json_text, sealed_record, sealed_text  # noqa: E402

LONGER = "alg.generations=4"
KINDS = {
    "erl_orders": (*ORDERS, LONGER, "alg.direct_steps=2"),
    "erl_weights": (*WEIGHTS, LONGER),
    "erl_gym": (*PENDULUM, LONGER),
    "erl_parity": (*PENDULUM, LONGER, "checkpoint.parity=0.2"),
    "pwm_mlp": (*WORLD_MODEL, "alg.iterations=4"),
    "pwm_flow": (*FLOW_WORLD_MODEL, "alg.iterations=4"),
    "sb3_sac": (*SB3["sac"], "alg.env_steps=200"),
}


def make(lab: Lab, name: str, overrides: tuple[str, ...], to: Path, root: Path) -> None:
    whole = lab.train(f"whole_{name}", overrides, root)
    done = lab.run(
        "train", *overrides, f"run.root={root}", f"run.name={name}",
        moments=(Moment("stepped", "SIGTERM", 2),),
    )  # fmt: skip
    assert done.code == 75, (done.code, done.err)
    for lock in ("lock", "objects.lock"):
        (root / name / lock).unlink()
    _make_portable(root / name)
    shutil.copytree(root / name, to / name)
    expected = {
        "metrics": _lines(whole / "metrics.jsonl"),
        "evaluation": {k: v for k, v in _lines(whole / "evaluations.jsonl")[-1].items() if k != "time"},
    }
    (to / name / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


def _make_portable(run: Path) -> None:
    """No word of the machine that made it; the files carry their checksums again."""
    config = (run / "config.yaml").read_text(encoding="utf-8").replace(str(run.parent), "runs")
    (run / "config.yaml").write_bytes(sealed_text(re.sub(r"# sha256 [0-9a-f]{64}\n\Z", "", config)))
    facts = json.loads((run / "run.json").read_text(encoding="utf-8").replace(str(run.parent), "runs"))
    facts |= {"host": "anywhere", "platform": "Linux", "directory": "."}
    facts |= {"git": None, "git_commit": None, "git_dirty": None}
    (run / "run.json").write_bytes(json_text(sealed_record(facts)))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as place, Lab(Path(place)) as lab:
        os.environ["EIGEN2_LEDGER"] = f"{place}/ledger.jsonl"
        for kind in sys.argv[2:] or KINDS:
            make(lab, kind, KINDS[kind], target, Path(place) / "runs")
