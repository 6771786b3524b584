"""What a run meets on other machines: data that is not there, a disk that is full; and what it never takes along."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_lab import ORDERS, Lab, Moment, story, write_prices
from machines import NAME, Machine, files, good, is_sentence
from servers import AZURE_KEY, SECRET, Place, azure_environment, s3_environment

MARKET = ORDERS[3:]
STOPPED = (Moment("stepped", "SIGTERM", 2),)
FULL_DISK = """
mount -t tmpfs -o size=$3 none "$1" || exit 77
"$4" -m eigen2 sync pull "$2" --root "$1"; echo "first $?" >&2
mount -o remount,size=$5 "$1"
"$4" -m eigen2 sync pull "$2" --root "$1"; echo "second $?" >&2
mount -o remount,size=16m "$1"
"$4" -m eigen2 sync pull "$2" --root "$1"; echo "third $?" >&2
"$4" -m eigen2 verify run --root "$1"; echo "verified $?" >&2
"""


def test_a_run_on_the_users_own_prices_needs_nothing_but_the_bucket(
    place: Place, lab: Lab, tmp_path: Path
) -> None:
    served = place("local")
    first, second = Machine(lab, tmp_path / "first", served), Machine(lab, tmp_path / "second", served)
    prices = tmp_path / "prices.csv"
    write_prices(prices)
    straight = lab.train("straight", (f"env.data={prices}", *MARKET), tmp_path)
    words = (f"env.data={prices}", f"cloud.url={served.url}", f"run.root={first.root}", f"run.name={NAME}")
    assert lab.run("train", *MARKET, *words, moments=STOPPED).code == 75
    prices.rename(tmp_path / "gone.csv")
    good(second.resume(second.url))
    assert story(second.run) == story(straight)
    assert second.fingerprint() == lab.run("fingerprint", straight).out
    assert served.stored is not None
    assert files(served.stored / NAME) == files(second.run)


def test_no_secret_is_written_or_said(place: Place, lab: Lab, tmp_path: Path) -> None:
    """A run that goes well, one whose server is away, one with wrong keys, one with a key in its url."""
    secrets = {SECRET: "s3", AZURE_KEY: "azure", "a-session-token": "token", "wrong-secret-98765": "wrong"}
    served = place("rclone")
    token = {"AWS_SESSION_TOKEN": "a-session-token", "AZURE_STORAGE_CONNECTION_STRING": azure_environment("127.0.0.1:9")[
        "AZURE_STORAGE_CONNECTION_STRING"], "GOOGLE_API_KEY": "wrong-secret-98765"}  # fmt: skip
    machine = Machine(lab, tmp_path / "runs", served)
    said = [good(machine.train(environment=token))]
    away = s3_environment("127.0.0.1:9")
    said.append(good(machine.train("run.name=away", "cloud.drain_seconds=0", environment={**token, **away})))
    wrong = {**served.environment, "AWS_SECRET_ACCESS_KEY": "wrong-secret-98765"}
    said.append(machine.train("run.name=wrong", environment={**token, **wrong}))
    is_sentence(said[-1], 2)
    said.append(machine.train("run.name=url", f"cloud.url=s3://key:{SECRET}@bucket/prefix"))
    is_sentence(said[-1], 2)
    said.append(machine.sync("status", machine.run, environment={**token, **wrong}))
    assert said[-1].code == 2
    assert served.stored is not None
    assert sorted(path.name for path in machine.root.iterdir()) == ["away", "latest", NAME]
    everything = [*files(machine.root).values(), *files(served.stored).values()]
    everything += [(done.out + done.err).encode() for done in said]
    for secret, kind in secrets.items():
        assert not any(secret.encode() in content for content in everything), kind


def test_a_disk_that_is_too_small_for_a_pull(place: Place, finished: Path, tmp_path: Path) -> None:
    """Once foreseen, once met in the middle; with room, the same command completes it."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a small disk needs root and util-linux")
    served = place("local")
    assert served.stored is not None
    shutil.copytree(finished, served.stored / NAME)
    total = sum(path.stat().st_size for path in finished.rglob("*") if path.is_file())
    disk = tmp_path / "disk"
    disk.mkdir()
    # Files take whole pages: what fits by its bytes does not fit.
    pages = (total // 4096 + 3) * 4096
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", FULL_DISK, "sh", disk, f"{served.url}/{NAME}", str(total // 2), sys.executable,
         str(pages)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("this container may not mount a tmpfs")
    codes = [
        line for line in done.stderr.splitlines() if line.startswith(("first", "second", "third", "verified"))
    ]
    assert codes == ["first 4", "second 4", "third 0", "verified 0"], done.stderr
    assert done.stderr.count("eigen2: ") == 2, done.stderr
    assert "of disk space and only" in done.stderr
    # Met by a write, or when room for the next part is looked for.
    assert "No space left on device" in done.stderr or "only 0.00 MB are free" in done.stderr
    assert "Traceback" not in done.stderr
