"""The uploader by itself: what it calls complete is complete, and what it leaves behind is named."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from machines import NAME, files, whole

from eigen2.cloud.bucket import Source, Unreachable
from eigen2.cloud.lease import Lease
from eigen2.cloud.local import LocalBucket
from eigen2.cloud.location import parse
from eigen2.cloud.mirror import Mirror
from eigen2.cloud.names import object_key
from eigen2.cloud.uploader import Uploader
from eigen2.harness.run import Run
from eigen2.store.integrity import verify


class Shaky(LocalBucket):
    """A directory that takes no object while `away` names it."""

    away: Callable[[str], bool] = staticmethod(lambda key: False)

    def put(
        self, key: str, source: Source | bytes, spend: Callable[[int], None] = lambda count: None
    ) -> None:
        if self.away(key):
            raise Unreachable("The directory is away.")
        super().put(key, source, spend)


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "runs" / NAME))


@pytest.fixture
def bucket(tmp_path: Path) -> Shaky:
    (tmp_path / "bucket").mkdir()
    return Shaky(parse(f"file://{tmp_path / 'bucket'}"))


def uploader(run: Path, bucket: Shaky, said: list[str]) -> Uploader:
    lease = Lease(bucket, NAME, run, 60.0)
    mirror = Mirror(run, bucket, NAME, "file:///somewhere")
    return Uploader(
        mirror, lease, lambda: lease.acquire(datetime.now(UTC), same_place_is_dead=True), lambda: None, said.append
    )  # fmt: skip


def queue_an_old_batch(run: Path) -> None:
    """As if the process had been killed while it sent the step before the last."""
    previous = Run(run).checkpoints.contents()["previous"]
    Mirror(run, LocalBucket(parse("file:///nowhere")), NAME, "file:///somewhere").pins.write(
        {"previous": previous}
    )


def test_after_an_old_batch_the_newest_is_sent_before_anything_is_called_complete(
    run: Path, bucket: Shaky, tmp_path: Path
) -> None:
    queue_an_old_batch(run)
    said: list[str] = []
    assert uploader(run, bucket, said).drain(60, lambda done, total: None) is None
    assert [sentence.partition(":")[0] for sentence in said] == ["step 2", "step 3"]
    assert files(tmp_path / "bucket" / NAME) == files(run)


def test_what_is_left_is_counted_without_what_is_there(run: Path, bucket: Shaky, tmp_path: Path) -> None:
    """One object never arrives: everything else does, and no manifest that names it."""
    checkpoints = Run(run).checkpoints
    init, latest = (set(checkpoints.load(name).manifest.objects.values()) for name in ("init", "latest"))
    ref = min(latest - init, key=lambda ref: ref.hash)
    bucket.away = lambda key: key.endswith(object_key(ref.hash))
    said: list[str] = []
    left = uploader(run, bucket, said).drain(2, lambda done, total: None)
    assert left is not None
    assert "The directory is away." in left.reason
    assert left.bytes >= ref.size
    assert said[0] == "cloud: The directory is away. Training continues; uploads are tried again."
    assert len(said) == 1
    stored = tmp_path / "bucket" / NAME
    assert not list((stored / "checkpoints").glob("*"))
    assert not (stored / "lease.json").exists()
    there = {key for key in files(stored) if key.startswith("objects/")}
    named = {
        object_key(one.hash)
        for name in checkpoints.names()
        for one in checkpoints.load(name).manifest.objects.values()
    }
    assert left.objects == len(named - there)

    bucket.away = lambda key: False
    assert uploader(run, bucket, said).drain(60, lambda done, total: None) is None
    assert whole(stored) == 3
    assert files(stored) == files(run)
    assert verify(checkpoints).ok


def test_a_checkpoint_that_is_damaged_here_is_not_put_and_the_others_are(
    run: Path, bucket: Shaky, tmp_path: Path
) -> None:
    checkpoints = Run(run).checkpoints
    others = {
        ref.hash
        for name in ("previous", "init", "best")
        for ref in checkpoints.load(name).manifest.objects.values()
    }
    name = min({ref.hash for ref in checkpoints.load("latest").manifest.objects.values()} - others)
    checkpoints.objects.path(name).write_bytes(b"damaged")
    said: list[str] = []
    left = uploader(run, bucket, said).drain(60, lambda done, total: None)
    assert left is not None
    assert "is damaged here and is not uploaded" in left.reason
    assert sum("is damaged here and is not uploaded" in sentence for sentence in said) == 2, said
    stored = tmp_path / "bucket" / NAME
    whole(stored)
    assert sorted(path.stem for path in (stored / "checkpoints").iterdir()) == ["best", "init", "previous"]
    assert not (stored / object_key(name)).exists()


def test_pins_that_are_no_list_are_no_batch(run: Path, bucket: Shaky, tmp_path: Path) -> None:
    pins = Mirror(run, bucket, NAME, "file:///somewhere").pins
    for text in ("", "[]", '{"manifests": 5}', '{"manifests": {"latest": 7, "../x": "y"}}', "[" * 100_000):
        pins.path.write_text(text)
        said: list[str] = []
        assert uploader(run, bucket, said).drain(60, lambda done, total: None) is None
        assert (
            json.loads((tmp_path / "bucket" / NAME / "checkpoints" / "latest.json").read_bytes())["body"][
                "step"
            ]
            == 3
        )
