"""One world model of several tasks: padding, masks, the embedding, and a policy for each task."""

import numpy as np
import pytest
import torch

from eigen2 import seeds
from eigen2.algorithms.pwm.collector import Collector, schema_of
from eigen2.algorithms.pwm.multitask import MultiTaskTrainer
from eigen2.algorithms.pwm.task_model import TaskView, TaskWorldModel
from eigen2.algorithms.pwm.union import transitions_by_task, unite
from eigen2.envs.control.catalogue import make_task
from eigen2.errors import DataError
from eigen2.replay.buffer import Replay

TASKS = [make_task("pendulum"), make_task("dflex_hopper")]
SIZES = [(3, 1), (11, 3)]


def experience(task, steps=40, seed=1):
    """Random actions of four environments; hoppers fall, so episodes end within them."""
    collector = Collector(task, task.open(4, seed, "start"), Replay(schema_of(task), 10_000, seed))
    stream = np.random.default_rng(seed)
    collector.run(lambda observation: stream.uniform(-1, 1, (4, task.action_size)).astype(np.float32), steps)
    return collector.replay


def rows(replay, observations, actions, numbers=None):
    """Every transition as bytes, without padding; their multiset is what a replay holds."""
    first = replay.links.first
    batch = replay.transitions(np.arange(first, first + len(replay)) if numbers is None else numbers)
    parts = [
        batch.observation["obs"][:, :observations],
        batch.next_observation["obs"][:, :observations],
        batch.step["action"][:, :actions],
        batch.step["reward"][:, None],
        batch.step["terminated"][:, None],
        batch.step["truncated"][:, None],
    ]
    return sorted(row.tobytes() for row in torch.cat([part.float() for part in parts], 1).numpy())


@pytest.fixture(scope="module")
def sources():
    return [experience(task) for task in TASKS]


@pytest.fixture
def config(tiny):
    return tiny(iterations=3, evaluate_every=2, multitask={"embedding": 4, "policy_iterations": 2})


@pytest.fixture
def trainer(config, sources):
    made = MultiTaskTrainer(config, TASKS, seed=5)
    made.load_dataset(list(enumerate(sources)))
    return made


def test_the_union_holds_every_transition_once_padded_with_zeros(sources):
    united = unite(TASKS, list(enumerate(sources)), seed=0, compress=True)
    by_task = transitions_by_task(united, 2, np.arange(len(united)))
    for source, numbers, sizes in zip(sources, by_task, SIZES, strict=True):
        assert rows(united, *sizes, numbers) == rows(source, *sizes)
    padded = united.transitions(by_task[0])
    assert not padded.observation["obs"][:, 3:].any()
    assert not padded.step["action"][:, 1:].any()


@pytest.mark.parametrize("steps", [2, 7, 20])
def test_the_union_keeps_episodes_together_and_apart(sources, steps):
    united = unite(TASKS, list(enumerate(sources)), seed=0, compress=True)
    by_task = transitions_by_task(united, 2, united.links.can_follow(steps))
    assert [len(numbers) for numbers in by_task] == [
        len(source.links.can_follow(steps)) for source in sources
    ]


def test_several_replays_of_one_task_are_united(sources):
    more = experience(TASKS[0], steps=10, seed=2)
    united = unite(TASKS, [(0, sources[0]), (1, sources[1]), (0, more)], seed=0, compress=True)
    assert len(transitions_by_task(united, 2, np.arange(len(united)))[0]) == len(sources[0]) + len(more)


def test_data_of_another_task_is_refused(sources):
    with pytest.raises(DataError, match=r"of pendulum holds obs\[11\], action\[3\]"):
        unite(TASKS, [(0, sources[1]), (1, sources[1])], seed=0, compress=True)


def test_a_task_moves_the_world_with_its_own_actions_alone(config, stream):
    model = TaskWorldModel(config.model, 11, 3, 2, 4, stream)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=stream))
    pendulum, hopper = TaskView(model, 0), TaskView(model, 1)
    latent = model.encode(torch.randn(5, 15, generator=stream))
    action = torch.randn(5, 1, generator=stream)
    masked = torch.cat([action, torch.zeros(5, 2), model.embed(0).expand(5, -1)], 1)
    torch.testing.assert_close(pendulum.step(latent, action), model.step(latent, masked))
    torch.testing.assert_close(pendulum.reward(latent, action), model.reward(latent, masked))
    padded = torch.cat([action, torch.zeros(5, 2)], 1)
    assert not torch.allclose(hopper.step(latent, padded), pendulum.step(latent, action))


def test_only_the_embedding_tells_tasks_apart_that_look_the_same(tiny):
    """The second task is the first with every reward turned round; the model must learn both."""
    config = tiny(iterations=150, model={"learning_rate": 3e-3, "updates": 2, "batch": 32})
    replay = experience(TASKS[0])
    turned = Replay(replay.schema, 10_000, seed=0)
    batch = replay.transitions(np.arange(len(replay))).clone()
    for stream in range(4):
        steps = {"obs": batch.observation["obs"], **batch.step, "reward": -batch.step["reward"]}
        after = batch.next_observation["obs"].numpy()[stream::4, None]
        turned.extend_transitions(
            {name: values.numpy()[stream::4, None] for name, values in steps.items()},
            {"obs": after},
            [stream],
        )
    trainer = MultiTaskTrainer(config, [TASKS[0], TASKS[0]], seed=0)
    trainer.load_dataset([(0, replay), (1, turned)])
    for _ in range(config.iterations):
        metrics = trainer._train_model()
        trainer.iteration += 1
    observation, action = batch.observation["obs"], batch.step["action"]
    predicted = [
        policy.view.reward(policy.latent(observation), action).detach().numpy() for policy in trainer.policies
    ]
    assert np.isfinite(metrics["model_loss"])
    assert np.corrcoef(predicted[0], batch.step["reward"].numpy())[0, 1] > 0.8
    assert np.corrcoef(predicted[1], -batch.step["reward"].numpy())[0, 1] > 0.8


def test_every_task_is_normalised_by_its_own_data(trainer, sources):
    for policy, source, (size, _) in zip(trainer.policies, sources, SIZES, strict=True):
        observations = source.transitions(np.arange(len(source))).observation["obs"].numpy()
        np.testing.assert_allclose(
            policy.observations.mean[:size], observations.mean(0), rtol=1e-4, atol=1e-5
        )
        assert not policy.observations.mean[size:].any()


def test_batches_hold_all_tasks_in_equal_shares(trainer):
    batch, task = trainer._draw(8, seeds.generator(0, "test"))
    assert task.tolist() == [0] * 4 + [1] * 4
    assert batch.observation.shape == (5, 8, 11)
    assert not batch.observation[:, :4, 3:].any()


def test_first_the_model_is_learned_then_the_policies_one_after_the_other(trainer):
    embedding = trainer.model.embedding.detach().clone()
    metrics = [trainer.step() for _ in range(3)]
    assert all("model_loss" in record for record in metrics)
    assert {"return_pendulum", "return_dflex_hopper"} <= metrics[-1].keys()
    assert not torch.equal(trainer.model.embedding, embedding)
    learned = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    later = [trainer.step() for _ in range(4)]
    assert trainer.done
    assert trainer.steps == 7
    assert [record["task"] for record in later] == [0, 0, 1, 1]
    assert ["return_pendulum" in record for record in later] == [False, True, False, False]
    assert ["return_dflex_hopper" in record for record in later] == [False, False, False, True]
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, learned[name]), name
    assert trainer.best_score == np.mean([policy.best.score for policy in trainer.policies])


def test_the_champion_of_a_task_is_the_actor_of_its_best_evaluation(trainer):
    while not trainer.done:
        trainer.step()
    policy = trainer.policies[0]
    observation = np.zeros((3, policy.task.observation_size), np.float32)
    policy.best.record(1e6, trainer.iteration, policy.behaviour.state_dict)
    best = policy.champion()(observation)
    with torch.no_grad():
        for parameter in policy.behaviour.actor.parameters():
            parameter.add_(0.5)
    np.testing.assert_array_equal(policy.champion()(observation), best)
    assert not np.array_equal(policy.greedy()(observation), best)


@pytest.mark.parametrize("done", [1, 4])
def test_a_thawed_trainer_goes_on_bit_for_bit(done, trainer, config, copy_of):
    for _ in range(done):
        trainer.step()
    state, replay = trainer.state_dict(), copy_of(trainer.replay)
    expected = [trainer.step() for _ in range(3)]
    thawed = MultiTaskTrainer(config, TASKS, seed=5)
    thawed.load_state_dict(state)
    thawed.use_replay(replay)
    assert [thawed.step() for _ in range(3)] == expected


def test_of_a_state_with_averaged_actors_the_averages_are_read(trainer, config, with_average):
    while not trainer.done:
        trainer.step()
    state = with_average(trainer.state_dict(), "actor_ema")
    thawed = MultiTaskTrainer(config, TASKS, seed=5)
    thawed.load_state_dict(state)
    for old, new, policy in zip(trainer.policies, state["policies"], thawed.policies, strict=True):
        for actor, stored in (
            (policy.behaviour.actor.state_dict(), new["behaviour"]),
            (policy.best.weights["actor"], new["best"]["weights"]),
        ):
            assert all(torch.equal(actor[name], value) for name, value in stored["actor_ema"].items())
        assert not torch.equal(old.behaviour.actor.log_std, policy.behaviour.actor.log_std)
