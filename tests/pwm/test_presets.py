import pytest

from eigen2.config import load_config
from eigen2.envs.control.catalogue import make_task
from eigen2.pwm.parity import TOLERANCE, count_parameters, difference

PRESETS = [
    "pwm_5M", "pwm_19M", "pwm_48M", "pwm_317M", "pwm_5M_flow", "pwm_48M_flow", "pwm_tiny", "pwm_tiny_flow",
    "pwm_small",
]  # fmt: skip
ANT = make_task("dflex_ant")


def preset(name):
    return load_config([f"alg={name}", "env=dflex_ant"]).alg


def counts(name):
    return count_parameters(preset(name), ANT.observation_size, ANT.action_size)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid(name):
    assert counts(name).total > 10_000


@pytest.mark.parametrize(
    ("base", "variant"),
    [("pwm_5M", "pwm_5M_flow"), ("pwm_48M", "pwm_48M_flow"), ("pwm_tiny", "pwm_tiny_flow")],
)
def test_flow_presets_have_the_parameters_of_their_base_within_one_per_cent(base, variant):
    assert abs(difference(counts(base), counts(variant))) <= TOLERANCE


def test_flow_presets_differ_from_their_base_only_in_flow_keys():
    base, variant = preset("pwm_5M").model_dump(), preset("pwm_5M_flow").model_dump()
    for key in ("dynamics", "flow"):
        base["model"].pop(key)
        variant["model"].pop(key)
    assert base == variant


def test_the_world_model_has_about_the_original_number_of_parameters():
    """1,521,253 in the original; ours adds a termination head and a linear reconstruction."""
    assert counts("pwm_5M").model == pytest.approx(1_521_253, rel=0.03)
