"""Whatever happens on the way: training goes on, nothing local is lost, the bucket is whole at some step."""

import json
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from command_lab import Lab, Moment, newest, story
from machines import NAME, Gate, Machine, files, good, is_sentence, steps, until, whole
from proxy import Proxy, Request
from servers import KEY, SECRET, Place, Proxied, Served

from eigen2.harness.run import Run

TRIED_AGAIN = "Training continues; uploads are tried again."
OFFLINE = ("cloud.drain_seconds=1", "cloud.timeout_seconds=1")


def image(served: Served) -> Path:
    """Where the run lies as plain files."""
    assert served.stored is not None
    return served.stored / NAME


def complete(machine: Machine, finished: Path) -> None:
    """The run is the one that nobody disturbed, here and in the bucket."""
    assert story(machine.run) == story(finished)
    assert steps(machine.run)["final"] == 3
    assert files(image(machine.served)) == files(machine.run)
    assert whole(image(machine.served)) == 3


def cut(proxy: Proxy) -> None:
    proxy.cut_after = 3000


def refuse(proxy: Proxy) -> None:
    proxy.answer(500, times=10_000)


@pytest.mark.parametrize("fault", [cut, Proxy.stall, refuse])
def test_a_fault_that_passes_is_said_once_and_got_over(
    fault: Callable[[Proxy], None], place: Place, proxied: Proxied, lab: Lab, finished: Path, tmp_path: Path
) -> None:
    """It begins with the third object, and ends when the uploader, which has given up, looks what is there."""
    served, proxy = proxied(place("rclone"))
    seen: list[str] = []

    def watch(request: Request) -> None:
        if request.method == "PUT" and "/objects/" in request.path:
            seen.append(request.path)
            if len(seen) == 3:
                fault(proxy)
        elif "list-type" in request.path and len(seen) >= 3:
            proxy.calm()

    proxy.watch = watch
    machine = Machine(lab, tmp_path, served)
    done = good(machine.train("cloud.timeout_seconds=1"))
    assert done.out.count(TRIED_AGAIN) == 1, done.out
    assert len(re.findall(r"cloud: back after \d+ s", done.out)) == 1, done.out
    assert f"cloud: everything is in {machine.url}" in done.out
    complete(machine, finished)


def test_a_slow_link_carries_everything(
    place: Place, proxied: Proxied, lab: Lab, finished: Path, tmp_path: Path
) -> None:
    served, proxy = proxied(place("rclone"))
    proxy.bytes_per_second = 200_000
    machine = Machine(lab, tmp_path, served)
    assert TRIED_AGAIN not in good(machine.train()).out
    complete(machine, finished)


@pytest.mark.parametrize("fault", [Proxy.go_down, Proxy.stall])
def test_a_server_that_is_away_for_the_whole_run_does_not_disturb_it(
    fault: Callable[[Proxy], None], place: Place, proxied: Proxied, lab: Lab, finished: Path, tmp_path: Path
) -> None:
    served, proxy = proxied(place("rclone"))
    fault(proxy)
    machine = Machine(lab, tmp_path, served)
    done = good(machine.train(*OFFLINE))
    assert done.out.count(TRIED_AGAIN) == 1, done.out
    last = done.out.splitlines()[-1]
    assert re.search(r"cloud: \d+ objects \([\d.]+ [kM]B\) are only here: ", last), last
    assert f"`eigen2 sync push {machine.run}` sends it to {machine.url}" in last
    assert story(machine.run) == story(finished)
    assert not image(served).exists()
    # What a stalled server was sent must not arrive after all.
    proxy.go_down()
    proxy.come_up()
    proxy.resume()
    good(machine.sync("push", machine.run))
    complete(machine, finished)


def test_a_server_that_goes_and_comes_back_costs_two_lines(
    place: Place, proxied: Proxied, lab: Lab, finished: Path, tmp_path: Path
) -> None:
    served, proxy = proxied(place("rclone"))
    machine = Machine(lab, tmp_path, served)
    started = machine.begin(moments=(Moment("stepped", "SIGSTOP", 1), Moment("stepped", "SIGSTOP", 3)))
    started.wait_stopped()
    proxy.go_down()
    started.signal(signal.SIGCONT)
    # The training comes to its end although nothing answers.
    started.wait_stopped()
    started.signal(signal.SIGCONT)
    until(lambda: TRIED_AGAIN in started.out.read_text())
    proxy.come_up()
    done = good(started.wait())
    assert done.out.count(TRIED_AGAIN) == 1, done.out
    assert done.out.count("cloud: back after") == 1, done.out
    complete(machine, finished)


def test_credentials_that_expire_are_read_again(
    place: Place, proxied: Proxied, lab: Lab, finished: Path, tmp_path: Path
) -> None:
    """The server takes one pair of keys; from the first step on, the proxy takes it only with a session's token."""
    served, proxy = proxied(place("rclone"))
    credentials = tmp_path / "credentials"
    keys = f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    credentials.write_text(keys)
    kept = {name: served.environment[name] for name in ("AWS_REGION", "AWS_ENDPOINT_URL")}
    environment = {**kept, "AWS_SHARED_CREDENTIALS_FILE": str(credentials)}
    machine = Machine(
        lab, tmp_path / "runs", Served(served.kind, served.url, served.address, environment, served.stored)
    )
    started = machine.begin(moments=(Moment("stepped", "SIGSTOP", 1),))
    started.wait_stopped()

    def watch(request: Request) -> None:
        if b"x-amz-security-token" not in request.head.lower():
            proxy.answer(403, times=1)

    proxy.watch = watch
    started.signal(signal.SIGCONT)
    until(lambda: TRIED_AGAIN in started.out.read_text())
    credentials.write_text(keys + "aws_session_token = a-new-session\n")
    done = good(started.wait())
    assert done.out.count(TRIED_AGAIN) == 1, done.out
    assert "refused to" in done.out
    assert done.out.count("cloud: back after") == 1, done.out
    assert "a-new-session" not in done.out + done.err
    complete(machine, finished)


KILLS = {
    "with nothing there": ("PUT", "/objects/", 1),
    "between two objects": ("PUT", "/objects/", 5),
    "before the first manifest": ("PUT", "/checkpoints/", 1),
    "between two manifests": ("PUT", "/checkpoints/", 2),
    "before the manifests of a later batch": ("PUT", "/checkpoints/latest.json", 2),
}


@pytest.mark.parametrize("moment", KILLS)
def test_killed_while_uploading_the_next_start_completes_it(
    moment: str, place: Place, proxied: Proxied, lab: Lab, finished: Path, tmp_path: Path
) -> None:
    served, proxy = proxied(place("rclone"))
    machine = Machine(lab, tmp_path, served)
    gate, go = Gate(proxy, *KILLS[moment]), tmp_path / "go"
    waits = (Moment("stepped", "wait", 1, path=str(go)),)
    started = machine.begin("cloud.timeout_seconds=60", moments=waits)
    until(lambda: gate.reached.is_set() or (image(served) / "checkpoints" / "latest.json").exists())
    go.touch()
    gate.reached.wait()
    # The uploader is held, and the training comes to its end.
    until(lambda: newest(machine.run) == 3)
    started.signal(signal.SIGKILL)
    started.wait()
    gate.open()
    behind = whole(image(served)) if image(served).exists() else -1
    # The last manifest was held; `final` goes before it, if the later batch was the last one.
    assert behind < 3 or (image(served) / "checkpoints" / "final.json").exists()
    with Run(machine.run).owned():
        here = set(Run(machine.run).checkpoints.objects.list())
    assert queued(machine.run) <= here
    done = good(machine.resume())
    assert f"cloud: everything is in {machine.url}" in done.out
    complete(machine, finished)
    assert not list(machine.run.glob("uploads-*"))


def queued(run: Path) -> set[str]:
    """Objects of the manifests that are queued for upload."""
    texts = [
        text
        for path in run.glob("uploads-*.json")
        for text in json.loads(path.read_bytes())["manifests"].values()
    ]
    assert texts
    return {ref["hash"] for text in texts for ref in json.loads(text)["body"]["objects"].values()}


def test_a_bit_that_flips_on_the_way_is_not_counted_as_uploaded(
    place: Place, proxied: Proxied, lab: Lab, tmp_path: Path
) -> None:
    """moto stores whatever arrives."""
    served, proxy = proxied(place("moto"))
    machine = Machine(lab, tmp_path, served)

    def watch(request: Request) -> None:
        if request.method == "PUT" and "/objects/" in request.path:
            proxy.watch = lambda request: None
            proxy.flip(times=2, at_least=900)

    proxy.watch = watch
    done = good(machine.train())
    assert done.out.count(TRIED_AGAIN) == 1, done.out
    facts = machine.status("--verify")
    assert facts["complete"]
    assert facts["damaged"] == []


def test_an_object_that_is_damaged_in_the_bucket(
    place: Place, lab: Lab, finished: Path, tmp_path: Path
) -> None:
    served = place("rclone")
    first, second = Machine(lab, tmp_path / "first", served), Machine(lab, tmp_path / "second", served)
    assert first.train(moments=(Moment("stepped", "SIGTERM", 2),)).code == 75
    checkpoints = Run(first.run).checkpoints
    latest, previous = (
        {ref.hash for ref in checkpoints.load(name).manifest.objects.values()}
        for name in ("latest", "previous")
    )
    name = sorted(latest - previous)[0]
    damaged = image(served) / "objects" / name[:2] / name[2:]
    original = damaged.read_bytes()
    damaged.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
    shutil.copytree(image(served), tmp_path / "kept")

    said = is_sentence(first.sync("status", first.run, "--verify"), 5)
    assert f"damaged in the bucket: object {name}" in said
    done = good(second.resume(second.url))
    assert "checkpoint 'latest' at step 2 is refused" in done.out
    assert f"step 1 of {second.url}" in done.out
    assert story(second.run) == story(finished)
    assert files(image(served)) == files(second.run)

    # Another copy of the bucket, which the first machine puts right.
    there = served.below("again")
    assert there.stored is not None
    shutil.copytree(tmp_path / "kept", there.stored / NAME)
    done = good(first.sync("push", first.run, "--verify", "--to", there.url))
    assert "is damaged in the bucket and is sent again" in done.out
    assert good(first.sync("status", first.run, "--verify", "--to", there.url))
    assert (there.stored / NAME / "objects" / name[:2] / name[2:]).read_bytes() == original
