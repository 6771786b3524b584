"""What only reads settings or lists samples starts fast: it imports none of the heavy libraries."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "pandas", "pyarrow", "gymnasium")


def heavy_after(script: str) -> str:
    """The heavy libraries that a fresh interpreter has imported after running `script`."""
    report = f"import sys; print(*(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}\n{report}"], capture_output=True, text=True, check=True
    )
    return done.stderr.strip()


@pytest.mark.parametrize("module", ["eigen2.market.catalogue", "eigen2.envs.config", "eigen2.seeds"])
def test_settings_and_the_catalogue_import_nothing_heavy(module: str) -> None:
    assert heavy_after(f"import {module}") == ""


def test_listing_the_samples_imports_nothing_heavy() -> None:
    assert heavy_after("from eigen2.market import commands; commands.sample_list()") == ""


def test_checking_a_file_does_not_import_torch() -> None:
    assert heavy_after("import eigen2.envs.trading.price_check") == "pandas pyarrow"
