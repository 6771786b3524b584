"""The stacked TD3 learners against one agent at a time, slowly; and they refuse to go on with anything not finite."""

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from eigen2.algorithms.erl.ddpg import Learners
from eigen2.errors import DamagedStateError
from eigen2.nets.stacked import put, take

AGENTS = 3
KINDS = ["gym", "orders", "weights"]


@pytest.fixture
def make(alg, market_task, gym_task, filled):
    """make(kind, **alg) -> learners and batches to feed them."""

    def build(kind, **changes):
        config = alg(learners=AGENTS, **changes)
        task = gym_task(config) if kind == "gym" else market_task(config, actions=kind)
        actor = task.init_actor(AGENTS, torch.Generator().manual_seed(0))
        learners = Learners(task, config, actor, torch.Generator().manual_seed(1))
        replay = filled(task, actor, noise=0.3)
        return learners, lambda: task.batch(replay)

    return build


def run(learners, batches, steps, seed=4):
    rng = torch.Generator().manual_seed(seed)
    return learners.train(batches, steps, rng, lambda done: None)


def slow_target(task, config, learners, batch, agent, noise):
    """y = R + discount * min(Q1', Q2')(s', pi'(s') + clipped noise), for one agent."""
    with torch.no_grad():
        action = task.squash(task.policy(take(learners.actor_target, [agent]), batch.next_state))
        clipped = (config.target_noise * noise[agent : agent + 1]).clamp(
            -2.5 * config.target_noise, 2.5 * config.target_noise
        )
        action = task.smooth(action, clipped)
        first = task.value(take(learners.critic_target, [agent]), batch.next_state, action)
        second = task.value(take(learners.critic_target, [AGENTS + agent]), batch.next_state, action)
        return batch.reward + batch.discount * torch.minimum(first, second)[0]


def one_adam_step(params, loss_of, lr, clip):
    """Plain Adam with a clipped gradient on one network; returns (loss, new parameters)."""
    leaves = {name: value.clone().requires_grad_(True) for name, value in params.items()}
    optimiser = torch.optim.Adam(list(leaves.values()), lr=lr)
    loss = loss_of(leaves)
    loss.backward()
    clip_grad_norm_(list(leaves.values()), clip)
    optimiser.step()
    return float(loss.detach()), {name: value.detach() for name, value in leaves.items()}


def assert_close(actual, expected):
    for name in expected:
        torch.testing.assert_close(actual[name].detach(), expected[name], rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_one_update_of_all_agents_is_a_plain_td3_update_of_each(make, kind):
    learners, batches = make(kind, policy_delay=1, target_noise=0.2, clip=0.5, tau=0.1)
    task, config, batch = learners.task, learners.config, batches()
    before = learners.state_dict()
    shape = task.policy(learners.actor, batch.next_state).shape
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(4))

    critics, losses = {}, []
    for agent in range(AGENTS):
        target = slow_target(task, config, learners, batch, agent, noise)
        for twin in (agent, AGENTS + agent):

            def critic_loss(critic, target=target):
                values = task.value(critic, batch.state, batch.action.unsqueeze(0))[0]
                return (values - target).square().mean()

            loss, critics[twin] = one_adam_step(
                take(before["critic"], [twin]), critic_loss, config.critic_lr, config.clip
            )
            losses.append(loss)
    result = run(learners, lambda: batch, 1)
    assert result["critic_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-4)
    for twin, expected in critics.items():
        assert_close(take(learners.critic, [twin]), expected)

    for agent in range(AGENTS):
        critic = take(learners.critic, [agent])

        def actor_loss(actor, critic=critic):
            raw = task.policy(actor, batch.state)
            value = task.value(critic, batch.state, task.squash(raw)).mean()
            return -value + config.action_penalty * raw.square().mean()

        _, expected = one_adam_step(take(before["actor"], [agent]), actor_loss, config.actor_lr, config.clip)
        assert_close(take(learners.actor, [agent]), expected)

    for name, value in learners.actor_target.items():
        torch.testing.assert_close(
            value, torch.lerp(before["actor"][name], learners.actor[name].detach(), 0.1)
        )


def test_the_actor_waits_for_its_delay(make):
    learners, batches = make("gym", policy_delay=2)
    before = take(learners.actor, slice(None))
    run(learners, batches, 1)
    assert all(torch.equal(learners.actor[name], before[name]) for name in before)
    run(learners, batches, 1)
    assert any(not torch.equal(learners.actor[name], before[name]) for name in before)


@pytest.mark.parametrize("kind", KINDS)
def test_critics_learn_the_rewards_they_are_shown(make, kind):
    learners, batches = make(kind, gamma=0.0, n_step=1, target_noise=0.0, critic_lr=5e-3)
    batch = batches()
    first = run(learners, lambda: batch, 1)["critic_loss"]
    run(learners, lambda: batch, 150)
    assert run(learners, lambda: batch, 1)["critic_loss"] < 0.5 * first


@pytest.mark.parametrize("kind", KINDS)
def test_thawed_learners_go_on_bit_for_bit(make, kind):
    learners, batches = make(kind)
    drawn = [batches() for _ in range(6)]
    run(learners, iter(drawn[:3]).__next__, 3)
    thawed, _ = make(kind)
    thawed.load_state_dict(learners.state_dict())
    for one in (learners, thawed):
        run(one, iter(drawn[3:]).__next__, 3, seed=8)
    for name, value in learners.critic.items():
        assert torch.equal(value, thawed.critic[name])
    for name, value in learners.actor.items():
        assert torch.equal(value, thawed.actor[name])


def test_a_reset_learner_starts_without_momentum_and_the_others_keep_theirs(make):
    learners, batches = make("gym", policy_delay=1)
    run(learners, batches, 2)
    stranger = learners.task.init_actor(1, torch.Generator().manual_seed(77))
    kept = {name: value["exp_avg"][[0, 2]] for name, value in learners.state_dict()["actor_moments"].items()}
    learners.reset([1], stranger)
    moments = learners.state_dict()["actor_moments"]
    for name, value in stranger.items():
        assert torch.equal(learners.actor[name][1].detach(), value[0])
        assert torch.equal(learners.actor_target[name][1], value[0])
        assert not moments[name]["exp_avg"][1].any()
        assert moments[name]["exp_avg_sq"][1].any()
        assert torch.equal(moments[name]["exp_avg"][[0, 2]], kept[name])


def test_thawed_learners_cut_their_batches_as_before(make):
    learners, _ = make("gym")
    learners.micro_batches.parts = 4
    thawed, _ = make("gym")
    thawed.load_state_dict(learners.state_dict())
    assert thawed.micro_batches.parts == 4


def test_a_restarted_learner_takes_no_larger_steps_than_the_others(make):
    """No step of Adam with constant gradients is longer than the learning rate."""
    learners, _ = make("gym")
    params, optimiser = learners.actor, learners.actor_optimiser
    constant = [torch.ones_like(value) for value in params.values()]
    for _ in range(300):
        learners._step(optimiser, constant, params, "actor")
    learners.reset([0], learners.task.init_actor(1, torch.Generator().manual_seed(77)))
    child = learners.task.init_actor(1, torch.Generator().manual_seed(78))
    learners.inherit([1], [2], child)
    for _ in range(20):
        before = take(params, slice(None))
        learners._step(optimiser, constant, params, "actor")
        for name, value in params.items():
            assert (value - before[name]).abs().max() <= 1.01 * learners.config.actor_lr


def test_a_gradient_that_is_not_finite_stops_naming_learner_tensor_and_update(make):
    learners, batches = make("gym")
    run(learners, batches, 4)
    # Only agent 1's second critic is poisoned, in its last layer.
    poisoned = take(learners.critic, [AGENTS + 1])
    poisoned["2.w"].fill_(float("inf"))
    put(learners.critic, [AGENTS + 1], poisoned)
    with pytest.raises(DamagedStateError, match=r"gradient of critic tensor \S+ of learner 1 .* update 4"):
        run(learners, batches, 1)


def test_a_gradient_too_large_for_its_norm_stops_as_well(make):
    learners, batches = make("gym")
    batch = batches()
    batch.reward.fill_(1e25)
    with pytest.raises(DamagedStateError, match="gradient of critic tensor .* of learner 0 .* update 0"):
        run(learners, lambda: batch, 1)


def test_a_weight_that_is_not_finite_stops_naming_learner_tensor_and_update(make):
    learners, batches = make("gym")
    run(learners, batches, 3)
    poisoned = take(learners.actor, [2])
    poisoned["1.w"][0, 0, 0] = float("nan")
    put(learners.actor, [2], poisoned)
    with pytest.raises(DamagedStateError, match="actor tensor 1.w of learner 2 is not finite after update 3"):
        run(learners, batches, 0)
