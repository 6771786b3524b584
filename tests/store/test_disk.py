"""Room is measured where the run will be, and a lack of it is said before anything is written."""

import shutil
from pathlib import Path

import pytest

from eigen2.errors import ResourceError
from eigen2.store.disk import ensure_room, free_bytes


def test_free_space_of_a_directory_that_does_not_exist_yet(tmp_path: Path) -> None:
    assert abs(free_bytes(tmp_path / "a" / "b") - shutil.disk_usage(tmp_path).free) < 1 << 30


def test_too_little_room_names_the_place_and_both_sizes(tmp_path: Path) -> None:
    ensure_room(tmp_path, 1)
    with pytest.raises(
        ResourceError, match=r"needs 1000000000.00 GB .* only .* GB are free; free some space"
    ) as error:
        ensure_room(tmp_path / "run", 10**18)
    assert str(tmp_path / "run") in str(error.value)
    assert error.value.exit_code == 4
