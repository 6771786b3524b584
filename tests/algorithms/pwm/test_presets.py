"""Presets are valid, have the original's sizes, and differ between variants in nothing but the variant."""

import pytest

from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.parity import count_parameters, parity, parity_facts, require_parity, variant
from eigen2.config import differences, load_config, preset_config
from eigen2.envs.control.catalogue import make_task
from eigen2.errors import ConfigError

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


def test_mlp_and_flow_presets_have_the_same_number_of_parameters_within_one_per_cent():
    facts = parity_facts([], "dflex_ant")
    require_parity(facts)
    partners = {name: row["flow_preset"] for name, row in facts["presets"].items()}
    assert partners["pwm_5M"] == "pwm_5M_flow"
    assert partners["pwm_48M"] == "pwm_48M_flow"
    assert {"pwm_19M", "pwm_317M", "pwm_tiny"} <= partners.keys()
    assert all(row["ok"] and abs(row["difference_percent"]) <= 1.0 for row in facts["presets"].values())


def test_a_variant_that_is_larger_is_refused_with_its_difference():
    base = preset("pwm_tiny")
    wide = base.model_copy(update={"model": base.model.model_copy(update={"units": (80, 80)})})
    found = parity(base, variant(wide, "flow"), ANT.observation_size, ANT.action_size)
    assert not found.holds
    facts = {"tolerance_percent": 1.0, "presets": {"pwm_tiny": found.to_json()}}
    with pytest.raises(ConfigError, match=r"pwm_tiny \+\d"):
        require_parity(facts)


def test_flow_presets_differ_from_their_base_only_in_flow_keys():
    base, variant = preset("pwm_5M").model_dump(), preset("pwm_5M_flow").model_dump()
    for key in ("dynamics", "flow"):
        base["model"].pop(key)
        variant["model"].pop(key)
    assert base == variant


def test_the_world_model_has_about_the_original_number_of_parameters():
    """1,521,253 in the original; ours adds a termination head and a linear reconstruction."""
    assert counts("pwm_5M").model == pytest.approx(1_521_253, rel=0.03)


def test_parity_is_of_one_control_task_and_of_known_presets():
    with pytest.raises(ConfigError, match="env=tasks is not one control task"):
        parity_facts(["pwm_tiny"], "tasks")
    with pytest.raises(ConfigError, match="erl is not a PWM preset"):
        parity_facts(["erl"], "dflex_ant")


def test_settings_are_still_read_by_their_former_names():
    old = PWMConfig.model_validate({"final_rate": 0.1})
    new = PWMConfig(final_lr_scale=0.1)
    assert old == new


@pytest.mark.parametrize("size", ["small", "tiny"])
def test_presets_of_the_two_dynamics_differ_in_nothing_else(size):
    mlp, flow = (preset_config({"alg": f"pwm_{size}{kind}", "env": "pendulum"}) for kind in ("", "_flow"))
    differing = {key for key in differences(mlp, flow) if not key.startswith("presets.")}
    assert differing - {"alg.model.flow.substeps"} == {"alg.model.dynamics"}
