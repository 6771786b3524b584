"""The plain loop and the small markets live in bench/, where the benchmark uses them too."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"


def load_from_bench(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def markets() -> ModuleType:
    return load_from_bench("small_markets")


@pytest.fixture(scope="session")
def plain() -> ModuleType:
    return load_from_bench("plain_trading")
