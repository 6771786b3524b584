import psutil
import pytest

from eigen2.envs.control.catalogue import make_task
from eigen2.pwm.trainer import PWMTrainer


@pytest.mark.slow
@pytest.mark.parametrize("dynamics", ["mlp", "flow"])
def test_memory_stays_flat_over_many_iterations(dynamics, tiny):
    flow = {"integrator": "heun", "substeps": 4}
    config = tiny(iterations=5000, evaluate_every=10_000, model={"dynamics": dynamics, "flow": flow})
    trainer = PWMTrainer(config, make_task("dflex_hopper"), seed=0, capacity=2000)
    resident = []
    while not trainer.done:
        trainer.step()
        if trainer.iteration % 500 == 0:
            resident.append(psutil.Process().memory_info().rss)
    assert max(resident[2:]) - resident[1] < 16 * 2**20
