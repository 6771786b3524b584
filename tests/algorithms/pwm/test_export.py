import numpy as np
import pytest
import torch

from eigen2.algorithms.pwm.agent import policy_in
from eigen2.algorithms.pwm.export import load_policy, save_checkpoint, save_policy
from eigen2.algorithms.pwm.trainer import PWMTrainer
from eigen2.envs.control.catalogue import make_task
from eigen2.errors import DamagedStateError


@pytest.fixture
def trained(tiny):
    trainer = PWMTrainer(tiny(evaluate_every=1), make_task("pendulum"), seed=1, capacity=1000)
    trainer.step()
    return trainer


def some_observations():
    return np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def test_an_exported_policy_acts_as_the_trainer_evaluates(trained, tmp_path):
    expected = trained.agent.greedy(trained.collector.observations)(some_observations())
    weights = policy_in(trained.state_dict())
    save_policy(tmp_path / "final.pt", weights, trained.config, trained.task, 1)
    save_policy(tmp_path / "best.pt", trained.best_weights(), trained.config, trained.task, 1)
    save_checkpoint(tmp_path / "latest.pt", trained.state_dict(), trained.config, trained.task)
    for path in tmp_path.iterdir():
        np.testing.assert_array_equal(load_policy(path)(some_observations()), expected)


def test_a_checkpoint_file_holds_the_training_state_as_tensors(trained, tmp_path):
    save_checkpoint(tmp_path / "latest.pt", trained.state_dict(), trained.config, trained.task)
    training = torch.load(tmp_path / "latest.pt", weights_only=True)["training"]
    assert training["iteration"] == 1
    assert training["collector"]["environments"]["physics"].dtype == torch.float64
    assert training["learner"]["actor"]


def test_a_file_that_is_no_policy_is_refused(trained, tmp_path):
    torch.save({"actor": torch.zeros(3)}, tmp_path / "other.pt")
    with pytest.raises(DamagedStateError, match="not a policy"):
        load_policy(tmp_path / "other.pt")
    save_policy(tmp_path / "cut.pt", trained.best_weights(), trained.config, trained.task, 1)
    (tmp_path / "cut.pt").write_bytes((tmp_path / "cut.pt").read_bytes()[:-1000])
    for name in ("cut.pt", "none.pt"):
        with pytest.raises(DamagedStateError, match=name):
            load_policy(tmp_path / name)
