"""The trainer contract: plain floats out, exact freezing and thawing, the schedule from the global step."""

import gc
import math
from typing import Any

import numpy as np
import pytest
import torch

from eigen2.algorithms.pwm.trainer import PWMTrainer
from eigen2.envs.config import GymConfig
from eigen2.envs.control.catalogue import make_task
from eigen2.envs.control.gymnasium_task import GymnasiumTask
from eigen2.errors import DamagedStateError, DataError

VARIANTS: dict[str, dict[str, Any]] = {
    "mlp": {},
    "flow": {"model": {"dynamics": "flow", "flow": {"integrator": "heun", "substeps": 4}}},
    "two_hot": {"model": {"reward": "two_hot"}},
}


def trainer(config, task="dflex_hopper", seed=5):
    return PWMTrainer(config, make_task(task), seed, capacity=1000)


def leaves(state, prefix=""):
    for key, value in state.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def assert_same_state(first, second):
    a, b = dict(leaves(first)), dict(leaves(second))
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(np.asarray(a[name]), np.asarray(b[name]), err_msg=name)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_thawed_trainer_goes_on_bit_for_bit(name, tiny, copy_of):
    config = tiny(**VARIANTS[name])
    original = trainer(config)
    for _ in range(2):
        original.step()
    state, replay = original.state_dict(), copy_of(original.replay)
    expected = [original.step() for _ in range(3)]

    thawed = trainer(config)
    thawed.load_state_dict(state)
    thawed.use_replay(replay)
    assert [thawed.step() for _ in range(3)] == expected
    assert_same_state(thawed.state_dict(), original.state_dict())


def test_the_same_seed_gives_the_same_run_and_another_seed_another(tiny):
    first, second, other = (trainer(tiny(), seed=seed) for seed in (5, 5, 6))
    metrics = [[t.step() for _ in range(3)] for t in (first, second, other)]
    assert metrics[0] == metrics[1] != metrics[2]


def test_no_global_generator_is_read(tiny):
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002
    trainer(tiny()).step()
    assert torch.equal(torch.get_rng_state(), torch_state)
    np.testing.assert_array_equal(np.random.get_state(legacy=False)["state"]["key"], numpy_state)  # noqa: NPY002


@pytest.mark.parametrize("name", VARIANTS)
def test_metrics_are_plain_finite_floats(name, tiny):
    agent = trainer(tiny(**VARIANTS[name]))
    while not agent.done:
        for key, value in agent.step().items():
            assert type(value) is float, key
            assert math.isfinite(value), key
    assert agent.iteration == 6


def test_state_holds_only_arrays_tensors_numbers_and_strings(tiny):
    agent = trainer(tiny())
    agent.step()
    for name, value in leaves(agent.state_dict()):
        assert isinstance(value, torch.Tensor | np.ndarray | int | float | str), name


def test_saved_state_does_not_change_when_training_goes_on(tiny):
    agent = trainer(tiny())
    agent.step()
    state = agent.state_dict()
    kept = {name: np.asarray(value).copy() for name, value in leaves(state)}
    agent.step()
    for name, value in leaves(state):
        np.testing.assert_array_equal(np.asarray(value), kept[name], err_msg=name)


def test_evaluation_happens_on_its_iterations_and_at_the_end(tiny):
    agent = trainer(tiny(iterations=5, evaluate_every=2))
    assert ["eval_return" in agent.step() for _ in range(5)] == [False, True, False, True, True]


def test_evaluation_changes_nothing(tiny):
    agent = trainer(tiny())
    agent.step()
    before = agent.state_dict()
    first = agent.evaluate(3).returns
    np.testing.assert_array_equal(agent.evaluate(3).returns, first)
    assert_same_state(agent.state_dict(), before)


def test_learning_rates_fall_linearly_with_the_global_step(tiny):
    agent = trainer(tiny(iterations=5, final_lr_scale=0.2))
    scales = []
    for _ in range(5):
        scales.append(agent._lr_scale)
        agent.step()
    np.testing.assert_allclose(scales, [1.0, 0.8, 0.6, 0.4, 0.2])


def test_transitions_reach_the_replay_before_any_episode_ends(tiny):
    agent = trainer(tiny(), task="dflex_cheetah")
    agent.step()
    assert len(agent.replay) == 4 * (16 + 4)


def test_a_weight_that_is_not_finite_stops_training_and_is_named(tiny):
    agent = trainer(tiny())
    agent.step()
    with torch.no_grad():
        agent.agent.model.decoder.weight[0, 0] = math.nan
    with pytest.raises(DamagedStateError, match="model loss is nan"):
        agent.step()


def test_a_gymnasium_environment_is_trained_on_and_resumed_alike(tiny, copy_of):
    task = GymnasiumTask(GymConfig(id="Pendulum-v1", max_episode_steps=30))
    original, thawed = (PWMTrainer(tiny(), task, 5, capacity=1000) for _ in range(2))
    original.step()
    state, replay = original.state_dict(), copy_of(original.replay)
    thawed.load_state_dict(state)
    thawed.use_replay(replay)
    assert thawed.step() == original.step()


def test_no_graph_outlives_its_iteration(tiny):
    """Kept losses once held every iteration's graph: 15 MB each, 228 GB a run."""

    def graphs():
        gc.collect()
        return sum(
            isinstance(thing, torch.Tensor) and thing.grad_fn is not None for thing in gc.get_objects()
        )

    agent = trainer(tiny())
    agent.step()
    before = graphs()
    metrics = [agent.step() for _ in range(3)]
    assert graphs() <= before
    assert len(metrics) == 3


def test_no_training_return_is_told_before_an_episode_has_ended(tiny):
    agent = trainer(tiny(iterations=14, evaluate_every=20), task="pendulum")
    told = ["train_return" in agent.step() for _ in range(14)]
    assert not any(told)  # 72 of 200 steps
    fallen = trainer(tiny(random_steps=200))
    assert fallen.step()["train_return"] < 1000.0


def test_every_phase_reports_its_progress_up_to_its_end(tiny):
    reports = []
    agent = PWMTrainer(
        tiny(evaluate_every=1),
        make_task("pendulum"),
        5,
        1000,
        progress=lambda *report: reports.append(report),
    )
    metrics = agent.step()
    assert list(dict.fromkeys(phase for phase, _, _ in reports)) == list(agent.phases)
    last = {phase: (done, total) for phase, done, total in reports}
    assert last == {"collect": (4, 4), "model": (4, 4), "policy": (2, 2), "evaluate": (2, 2)}
    assert {"model_loss", "eval_return"} <= metrics.keys() & set(agent.headline)


def test_bytes_are_told_by_owner_without_a_copy(tiny):
    agent = trainer(tiny(evaluate_every=2))
    agent.step()
    first = agent.owners()
    model = sum(parameter.nbytes for parameter in agent.agent.model.parameters())
    assert first["model"] == model
    assert first["optimisers"] > 2 * model
    assert first["best"] == 0
    agent.step()
    later = agent.owners()
    assert later["best"] > later["model"] + later["actor"] + later["critic"]
    assert later["replay"] > first["replay"]


@pytest.mark.parametrize("name", ["average_actor", "actor_ema"])
def test_of_a_state_with_an_averaged_actor_the_average_is_read(name, tiny, copy_of, with_average):
    """It was what earlier versions evaluated, kept as best and exported; all else is as it was."""
    original, thawed = trainer(tiny(evaluate_every=1)), trainer(tiny(evaluate_every=1))
    original.step()
    before, state = original.state_dict(), with_average(original.state_dict(), name)
    thawed.load_state_dict(state)
    thawed.use_replay(copy_of(original.replay))
    before["agent"]["actor"] = state["agent"][name]
    before["best"]["weights"]["agent"]["actor"] = state["best"]["weights"]["agent"][name]
    assert_same_state(thawed.state_dict(), before)
    original.load_state_dict(before)
    assert thawed.step() == original.step()


def pretraining(tiny, updates):
    return tiny(pretrain={"replay": "some/run", "updates": updates}, model={"learning_rate": 1e-3})


def test_pretraining_lowers_the_model_error_and_ends_with_an_empty_replay(tiny, copy_of):
    source = trainer(tiny(), seed=1)
    for _ in range(6):
        source.step()
    agent = trainer(pretraining(tiny, 151), seed=2)
    agent.load_dataset(copy_of(source.replay))
    metrics = [agent.step() for _ in range(76)]
    assert agent.steps == 76 + 6
    assert metrics[-1]["pretrained"] == 151
    assert metrics[-1]["model_loss"] < 0.7 * metrics[0]["model_loss"]
    assert agent.iteration == 0
    assert len(agent.replay) == 0
    agent.step()
    assert agent.iteration == 1
    assert len(agent.replay) == 4 * (16 + 4)


def test_a_trainer_thawed_in_the_middle_of_pretraining_goes_on_without_the_source(tiny, copy_of):
    source = trainer(tiny(), seed=1)
    source.step()
    config = pretraining(tiny, 8)
    original = trainer(config)
    original.load_dataset(copy_of(source.replay))
    original.step()
    state, replay = original.state_dict(), copy_of(original.replay)
    expected = [original.step() for _ in range(5)]
    thawed = trainer(config)
    thawed.load_state_dict(state)
    thawed.use_replay(replay)
    assert [thawed.step() for _ in range(5)] == expected
    assert_same_state(thawed.state_dict(), original.state_dict())


def test_what_pretraining_draws_depends_on_the_runs_seed_and_not_on_the_source(tiny, copy_of):
    source = trainer(tiny(), seed=1)
    source.step()
    drawn = []
    for seed in (2, 2, 3):
        agent = trainer(pretraining(tiny, 8), seed=seed)
        copy = copy_of(source.replay)
        agent.load_dataset(copy)
        drawn.append(copy.sample_sequences(8, 3).step["action"].clone())
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] != drawn[2]).any()


def test_a_thawed_trainer_cuts_its_batches_as_before(tiny):
    original, thawed = trainer(tiny()), trainer(tiny())
    original.micro_batches.parts = 4
    thawed.load_state_dict(original.state_dict())
    assert thawed.micro_batches.parts == 4
    older = {name: value for name, value in original.state_dict().items() if name != "parts"}
    thawed.load_state_dict(older)
    assert thawed.micro_batches.parts == 1


def test_pretraining_refuses_the_data_of_another_task(tiny):
    source = trainer(tiny(), task="pendulum")
    source.step()
    with pytest.raises(DataError, match=r"holds obs\[3\], action\[1\], dflex_hopper needs obs\[11\]"):
        trainer(pretraining(tiny, 1)).load_dataset(source.replay)
