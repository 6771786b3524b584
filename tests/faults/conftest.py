from collections.abc import Callable
from pathlib import Path

import pytest

LIBRARIES = Path("/usr/lib/fiu")


@pytest.fixture
def with_fault() -> Callable[[str], tuple[str, ...]]:
    """Makes a prefix under which a command meets a fault of libfiu's own grammar.

    The libraries are preloaded directly, without the remote control that `fiu-run` adds. A process that loads many
    libraries under libfiu still hangs now and then, so tests with it are slow ones.
    """
    preload = [LIBRARIES / "fiu_run_preload.so", LIBRARIES / "fiu_posix_preload.so"]
    if not all(library.exists() for library in preload):
        pytest.skip("needs the package fiu-utils")
    loaded = " ".join(str(library) for library in preload)
    return lambda fault: ("env", f"LD_PRELOAD={loaded}", f"FIU_ENABLE={fault}")
