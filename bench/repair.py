"""What damage costs: verify and repair of a run with 1, 2 and 5 damaged objects, with and without parity and a cloud.

A small run is trained four times; of each, copies are damaged (a bit of objects drawn by a fixed seed), verified,
repaired and resumed. Prints a table and, last, one JSON line.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

SMALL = (
    "env=gym", "env.id=Pendulum-v1", "env.max_episode_steps=100", "alg.population=4", "alg.generations=6",
    "alg.learners=1", "alg.elites=1", "alg.gradient_steps=2", "alg.batch=16", "alg.learning_starts=10", "alg.hidden=8",
    "replay.capacity=20000",
)  # fmt: skip
DAMAGES = (1, 2, 5)


def eigen2(*words: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "eigen2", *words], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    return done.returncode, json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}


def flipped(run: Path, count: int, seed: int) -> None:
    objects = sorted(path for path in (run / "objects").rglob("*") if path.is_file())
    for number in np.random.default_rng(seed).choice(len(objects), count, replace=False):
        content = bytearray(objects[number].read_bytes())
        content[len(content) // 2] ^= 1
        objects[number].write_bytes(content)


def lost_words(facts: dict[str, Any]) -> str:
    """What a repair says is lost, else what it set aside, in a few words."""
    said = facts["lost"] or [sentence for sentence in facts["rebuilt"] if "bit for bit" not in sentence]
    return "; ".join(sorted({sentence.split(" and the run was")[0][:76] for sentence in said})) or "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one draw each instead of three")
    draws = 1 if parser.parse_args().quick else 3
    rows: list[tuple[str, int, int, int, int, int, str]] = []
    with tempfile.TemporaryDirectory() as place:
        for parity in (0.0, 0.05):
            for cloud in (False, True):
                name = f"{'parity' if parity else 'no parity'}, {'cloud' if cloud else 'no cloud'}"
                root = Path(place) / name.replace(" ", "").replace(",", "_")
                where = [f"cloud.url=file://{root}/bucket"] if cloud else []
                root.mkdir()
                code, _ = eigen2(
                    "train", *SMALL, f"run.root={root}", "run.name=run", f"checkpoint.parity={parity}", *where, "--json"
                )  # fmt: skip
                assert code == 0
                for count in DAMAGES:
                    for draw in range(draws):
                        run = root / "copy" / "run"
                        shutil.copytree(root / "run", run)
                        flipped(run, count, seed=100 * count + draw)
                        verified, _ = eigen2("verify", str(run), "--json")
                        repaired, facts = eigen2("repair", str(run), "--json")
                        again, _ = eigen2("verify", str(run), "--json")
                        resumed, _ = eigen2("train", "--resume", str(run), "cloud.url=off", "--json")
                        rows.append((name, count, verified, repaired, again, resumed, lost_words(facts)))
                        shutil.rmtree(root / "copy")
    print(
        f"{'run':22} {'damaged':>7} {'verify':>6} {'repair':>6} {'verify':>6} {'resume':>6}  lost or set aside"
    )
    for name, count, *codes, lost in rows:
        print(f"{name:22} {count:7} " + " ".join(f"{code:6}" for code in codes) + f"  {lost}")
    whole = {
        f"whole_{'parity' if 'no parity' not in name else 'plain'}_{'cloud' if 'no cloud' not in name else 'alone'}_{count}": sum(
            row[3] == 0 for row in rows if row[:2] == (name, count)
        )
        for name, count in {row[:2] for row in rows}
    }
    unusable = sum(row[4] != 0 or row[5] != 0 for row in rows)
    print(json.dumps({"draws": draws, "unusable": unusable, **dict(sorted(whole.items()))}))


if __name__ == "__main__":
    main()
