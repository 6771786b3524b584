"""What PWM and SB3 say they will need is what they then have."""

import pytest
from command_lab import FLOW_WORLD_MODEL, SB3, WORLD_MODEL

from eigen2.algorithms import registry
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.needs import count
from eigen2.algorithms.pwm.parity import count_parameters
from eigen2.config import load_config
from eigen2.harness.host import Host
from eigen2.store.state import state_bytes


@pytest.mark.parametrize("preset", ["pwm_5M", "pwm_48M_flow", "pwm_317M", "pwm_small_flow"])
def test_parameters_are_counted_without_torch_as_with_it(preset: str) -> None:
    alg = load_config([f"alg={preset}", "env=dflex_ant"]).alg
    assert isinstance(alg, PWMConfig)
    counted, real = count(alg, 37, 8), count_parameters(alg, 37, 8)
    assert (counted.model, counted.actor, counted.critic) == (real.model, real.actor, real.critic)


@pytest.mark.parametrize("overrides", [WORLD_MODEL, FLOW_WORLD_MODEL, SB3["sac"], SB3["td3"], SB3["ppo"]])
def test_states_and_records_have_the_computed_size(overrides: tuple[str, ...]) -> None:
    config = load_config(overrides)
    algorithm = registry.algorithm(config.alg.kind)
    wants = algorithm.needs(config, Host(config).services)
    assert wants is not None
    with algorithm.open(config, Host(config).services) as experiment:
        trainer = experiment.trainer
        # Environments and generators are a few kilobytes that nobody counts.
        assert abs(state_bytes(trainer.state_dict()) - wants.first_state) < 10_000
        record = 0 if trainer.replay is None else trainer.replay.ring.layout.nbytes
        assert record == wants.record
        assert trainer.steps == wants.steps
        while not trainer.done:
            trainer.step()
        assert abs(state_bytes(trainer.state_dict()) - wants.state) < 0.1 * wants.state + 10_000
        if trainer.replay is not None:
            assert trainer.replay.links.total == wants.transitions
