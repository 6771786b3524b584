"""A run and its bucket: everything local is there, and an empty machine goes on from it bit by bit."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from command_lab import ORDERS, Lab, Moment, story
from machines import NAME, Machine, files, good, rclone, remote, steps, until
from servers import Open, Place, Proxied, Served

SEGMENT = b"EG2R"
"""How a segment of the replay begins."""
STOPPED = (Moment("stepped", "SIGTERM", 2),)


def test_an_empty_machine_goes_on_bit_by_bit(
    served: Served, opened: Open, lab: Lab, finished: Path, tmp_path: Path
) -> None:
    """The first machine stops in order, so that its bucket is complete; the second has nothing but the bucket."""
    first, second = Machine(lab, tmp_path / "first", served), Machine(lab, tmp_path / "second", served)
    stopped = first.train(moments=STOPPED)
    assert stopped.code == 75, stopped.err
    assert f"cloud: everything is in {first.url}" in stopped.out
    bucket = opened(served)
    prefix = f"{NAME}/"
    stored = {entry.key.removeprefix(prefix): bucket.get(entry.key, 1 << 30) for entry in bucket.list(prefix)}
    assert stored == files(first.run)

    done = good(second.resume(second.url))
    latest = json.loads(stored["checkpoints/latest.json"])["body"]
    needed = {ref["hash"] for ref in latest["objects"].values()}
    assert f"step 2 of {second.url}: {len(needed)} objects" in done.out
    assert "is used instead" not in done.out
    assert second.fingerprint() == lab.run("fingerprint", finished).out
    assert story(second.run) == story(finished)
    after = {entry.key.removeprefix(prefix): bucket.get(entry.key, 1 << 30) for entry in bucket.list(prefix)}
    assert after == files(second.run)
    assert set(steps(second.run)) == set(steps(finished))
    facts = second.status("--verify")
    assert facts["complete"]
    assert facts["lease"] is None


def test_only_what_is_needed_is_fetched_and_each_object_once(
    place: Place, proxied: Proxied, lab: Lab, tmp_path: Path
) -> None:
    served = place("rclone")
    assert Machine(lab, tmp_path / "first", served).train(moments=STOPPED).code == 75
    assert served.stored is not None
    stored = files(served.stored / NAME)
    named = {
        role: set(re.findall(rb"[0-9a-f]{64}", stored[f"checkpoints/{role}.json"]))
        for role in ("init", "best", "latest")
    }
    behind, proxy = proxied(served)
    second = Machine(lab, tmp_path / "second", behind)
    good(second.resume(second.url))
    got = [
        request.path.rpartition("/objects/")[2].replace("/", "").partition("?")[0].encode()
        for request in proxy.requests
        if request.method == "GET" and "/objects/" in request.path
    ]
    assert len(got) == len(set(got))
    objects = {key.removeprefix("objects/").replace("/", "").encode() for key in stored if "objects/" in key}
    # What is there to look at comes later, unless the run has replaced it by then.
    assert named["latest"] & objects <= set(got)
    assert set(got) <= named["latest"] | named["init"] | named["best"]


def test_the_place_may_come_from_the_environment(lab: Lab, tmp_path: Path) -> None:
    place = tmp_path / "bucket"
    environment = {"CLOUD_PROVIDER": "local", "CLOUD_BUCKET": str(place), "CLOUD_PROJECT": "mine"}
    words = (*ORDERS, f"run.root={tmp_path / 'runs'}")
    assert lab.run("train", *words, "cloud.url=off", "run.name=off", environment=environment).code == 0
    assert not place.exists()
    done = lab.run("train", *words, "run.name=on", environment=environment)
    assert f"cloud: everything is in file://{place}/mine/on" in good(done).out
    assert files(place / "mine" / "on") == files(tmp_path / "runs" / "on")
    # From then on the run knows its place.
    assert json.loads(good(lab.run("sync", "status", tmp_path / "runs" / "on", "--json")).out)["complete"]
    wrong = lab.run("train", *words, environment={"CLOUD_PROVIDER": "ftp", "CLOUD_BUCKET": "b"})
    assert wrong.code == 2
    assert "CLOUD_PROVIDER" in wrong.err


def test_each_byte_goes_up_once(
    place: Place,
    proxied: Proxied,
    lab: Lab,
    tmp_path: Path,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    """25 steps, the replay saved every fifth; counted where the server receives it."""
    served, proxy = proxied(place("rclone"))
    proxy.keeps = True
    machine = Machine(lab, tmp_path, served)
    good(machine.train("alg.generations=25", "replay.every=5"))
    puts = [request for request in proxy.requests if request.method == "PUT"]
    uploads = [put for put in puts if "lease.json" not in put.path and ".eigen2-probe" not in put.path]
    sent, other = sum(put.body for put in uploads), sum(put.body for put in puts)
    unique = sum(len(content) for content in {put.content for put in uploads})
    logs = sum(put.body for put in uploads if ".jsonl" in put.path)
    record_testsuite_property(
        "bytes", f"{sent:,} sent, {unique:,} unique, {logs:,} of logs, {other - sent:,} of lease and probe"
    )
    assert sent / unique <= 1.02
    objects = [put for put in uploads if "/objects/" in put.path]
    assert len({put.content for put in objects}) == len(objects)
    # A log goes up whole at the beginning and at the end, and its new ends in between.
    final = sum(
        (machine.run / f"{name}.jsonl").stat().st_size for name in ("metrics", "events", "lineage", "memory")
    )
    assert sum(put.body for put in uploads if "/tails/" in put.path) <= final

    before, pending, batches = -1, 0, 0
    for put in uploads:
        pending += put.content.startswith(SEGMENT)
        if put.path.partition("?")[0].endswith("checkpoints/latest.json"):
            saved = json.loads(put.content)["body"]["replay_step"]
            assert saved % 5 == 0
            assert not pending or saved > before
            before, pending, batches = saved, 0, batches + 1
    assert before == 25
    assert batches >= 2


def test_an_independent_client_finds_the_same_files_and_its_copy_resumes(
    place: Place, lab: Lab, finished: Path, tmp_path: Path
) -> None:
    served = place("rclone")
    machine = Machine(lab, tmp_path / "runs", served)
    # The training waits in the middle; the copy is taken while it is alive, with tails beside the logs.
    # What was added to the logs since an earlier upload is a tail, so one upload comes first.
    early, go = tmp_path / "early", tmp_path / "go"
    waits = (Moment("stepped", "wait", step, path=str(path)) for step, path in ((2, early), (3, go)))
    started = machine.begin(moments=tuple(waits))
    assert served.stored is not None
    latest = served.stored / NAME / "checkpoints" / "latest.json"
    until(lambda: latest.exists() and json.loads(latest.read_bytes())["body"]["step"] == 1)
    early.touch()
    until(lambda: json.loads(latest.read_bytes())["body"]["step"] == 2)
    copied = rclone("copy", remote(served, NAME), str(tmp_path / "copies" / NAME), served=served)
    assert copied.returncode == 0, copied.stderr
    assert list((tmp_path / "copies" / NAME / "tails").iterdir())
    go.touch()
    good(started.wait())
    checked = rclone("check", str(machine.run), remote(served, NAME), served=served)
    assert checked.returncode == 0, checked.stderr
    assert "0 differences found" in checked.stderr
    assert f"{len(files(machine.run))} matching files" in checked.stderr

    for name, root in (("middle", tmp_path / "copies"), ("end", tmp_path / "ends")):
        if name == "end":
            copied = rclone("copy", remote(served, NAME), str(root / NAME), served=served)
            assert copied.returncode == 0, copied.stderr
        done = lab.run("train", "--resume", root / NAME, "cloud.url=off")
        assert done.code == 0, done.err
        assert story(root / NAME) == story(finished), name
        assert not (root / NAME / "tails").exists()
        assert lab.run("fingerprint", root / NAME).out == lab.run("fingerprint", finished).out
