from collections.abc import Callable
from pathlib import Path

import pytest

LIBRARIES = Path("/usr/lib/fiu")


@pytest.fixture
def with_fault() -> Callable[[str], tuple[str, ...]]:
    """Makes a prefix under which a command meets a fault of libfiu's own grammar.

    The libraries are preloaded directly, without the remote control that `fiu-run` adds. Arrow's allocator must not
    start its background thread: libfiu takes a lock in every call, that thread starts inside dlopen(pyarrow), and the
    two meet at the loader's own lock in a deadlock, about once in thirteen.
    """
    preload = [LIBRARIES / "fiu_run_preload.so", LIBRARIES / "fiu_posix_preload.so"]
    if not all(library.exists() for library in preload):
        pytest.skip("needs the package fiu-utils")
    loaded = " ".join(str(library) for library in preload)
    quiet = "JE_ARROW_MALLOC_CONF=background_thread:false"
    return lambda fault: ("env", quiet, f"LD_PRELOAD={loaded}", f"FIU_ENABLE={fault}")
