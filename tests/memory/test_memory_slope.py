"""Nothing grows with the number of steps: at most 20 KB per step after warm-up."""

import pytest

from memory import LONG, trained


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", LONG)
def test_memory_slope_of_a_long_run(name: str) -> None:
    found = trained(LONG[name])
    assert found["leak"] is False
    assert abs(found["slope_bytes_per_step"]) <= 20_000
    assert found["profiler_share"] < 0.01
