import numpy as np
import pytest
import torch

from eigen2.envs.control.catalogue import make_task
from eigen2.errors import DamagedStateError
from eigen2.pwm.export import load_policy, model_card, save_checkpoint, save_policy
from eigen2.pwm.trainer import PWMTrainer


@pytest.fixture
def trained(tiny):
    trainer = PWMTrainer(tiny(), make_task("pendulum"), seed=1, capacity=1000)
    trainer.step()
    return trainer


@pytest.mark.parametrize("save", [save_policy, save_checkpoint])
def test_an_exported_policy_acts_as_the_trainer_evaluates(save, trained, tmp_path):
    save(tmp_path / "best_policy.pt", trained.state_dict(), trained.config, "pendulum")
    observation = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    expected = trained.agent.greedy(trained.collector.observations)(observation)
    np.testing.assert_array_equal(load_policy(tmp_path / "best_policy.pt")(observation), expected)


def test_a_file_that_is_no_policy_is_refused(tmp_path):
    torch.save({"actor": torch.zeros(3)}, tmp_path / "other.pt")
    with pytest.raises(DamagedStateError, match="not a policy"):
        load_policy(tmp_path / "other.pt")


def test_the_model_card_says_what_scores_are_worth(trained):
    card = model_card(trained.config, "dflex_ant", 7, {"best": 2000.0}, stand_still=1140.0, random=809.0)
    for fact in ("2000.0", "1140.0", "809.0", "not comparable with dflex", "seed 7"):
        assert fact in card
