"""Nothing grows with the number of iterations."""

import pytest

from pwm_memory import VARIANTS, measure


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("variant", VARIANTS)
def test_memory_stays_flat_over_five_thousand_iterations(variant):
    found = measure(variant, 5000, warm_up=1000)
    # On a busy machine the allocator takes 17 MB more, once, at some iteration; what grows shows in the slope.
    assert found["rss_mb_at_end"] - found["rss_mb_after_warm_up"] < 32
    assert found["bytes_per_iteration"] < 2000
    assert found["tensors_at_end"] == found["tensors_after_warm_up"]
