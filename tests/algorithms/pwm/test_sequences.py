import numpy as np
import torch

from eigen2.algorithms.pwm.collector import Collector, schema_of
from eigen2.algorithms.pwm.config import ModelConfig
from eigen2.algorithms.pwm.sequences import sequences_from, whole_sequences
from eigen2.algorithms.pwm.world_model import WorldModel
from eigen2.envs.control.catalogue import make_task
from eigen2.replay.buffer import Replay


def experience(steps=60):
    task = make_task("dflex_hopper")
    stream = np.random.default_rng(0)
    collector = Collector(task, task.open(4, 2, "start"), Replay(schema_of(task), 10_000, seed=2))
    collector.run(lambda observation: stream.uniform(-1, 1, (4, 3)).astype(np.float32), steps)
    return collector.replay


def starts(replay, count, seed=0):
    return np.random.default_rng(seed).choice(replay.links.can_follow(7), count)


def test_sequences_follow_one_episode():
    replay = experience()
    batch = sequences_from(replay, starts(replay, 500), 8)
    everything = replay.transitions(np.arange(len(replay))).clone()
    following = {
        row.numpy().tobytes(): after
        for row, after in zip(everything.observation["obs"], everything.next_observation["obs"], strict=True)
    }
    for t, n in np.ndindex(8, 500):
        assert (following[batch.observation[t, n].numpy().tobytes()] == batch.observation[t + 1, n]).all()


def test_drawn_batches_are_not_overwritten_by_the_next_draw():
    replay = experience()
    first = sequences_from(replay, starts(replay, 50), 8)
    kept = [tensor.clone() for tensor in vars(first).values()]
    sequences_from(replay, starts(replay, 50, seed=1), 8)
    for before, after in zip(kept, vars(first).values(), strict=True):
        assert (before == after).all()


def test_sequences_end_an_episode_only_at_their_last_step():
    batch = whole_sequences(experience(120), 2000, 8)
    assert (batch.terminated[:-1] == 0).all()
    assert batch.terminated[-1].sum() > 0


def test_a_model_of_whole_sequences_expects_falls_about_as_often_as_they_happen():
    replay = experience(400)
    share = replay.transitions(np.arange(len(replay))).step["terminated"].float().mean()
    model = WorldModel(
        ModelConfig(latent=16, units=(16,), encoder_units=(16,)), 11, 3, torch.Generator().manual_seed(0)
    )
    torch.nn.init.constant_(model.termination_head.bias, float(torch.logit(share)))
    loss = model.loss(whole_sequences(replay, 20_000, 8), 1.0, None)
    (slope,) = torch.autograd.grad(loss.termination, model.termination_head.bias)
    assert abs(slope.item()) < 0.35 * share.item()
