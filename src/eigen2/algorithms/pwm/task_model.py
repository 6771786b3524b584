"""One world model for many tasks: observations and actions padded to the widest, each with an embedding of its task.

The embedding is a part of every observation and of every action, so the world model itself is the one of a single task.
In observations it is given as a number, not as a weight: the model reconstructs its observations, and could otherwise
make that easy by forgetting which task is which.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eigen2.algorithms.pwm.config import ModelConfig
from eigen2.algorithms.pwm.sequences import SequenceBatch
from eigen2.algorithms.pwm.world_model import WorldModel
from eigen2.nets.dense import Stream


class TaskWorldModel(WorldModel):
    """O and A are the widest observation and action, E the size of the embedding."""

    def __init__(
        self,
        config: ModelConfig,
        observations: int,
        actions: int,
        tasks: int,
        embedding: int,
        stream: Stream,
    ) -> None:
        super().__init__(config, observations + embedding, actions + embedding, stream)
        self.observations, self.actions = observations, actions
        self.embedding = nn.Parameter(torch.randn(tasks, embedding, generator=stream))

    def embed(self, task: Tensor | int) -> Tensor:
        """Task numbers [...] -> unit vectors [..., E]"""
        return F.normalize(self.embedding, dim=-1)[task]

    def conditioned(self, batch: SequenceBatch, task: Tensor) -> SequenceBatch:
        """Adds to padded sequences [.., n, .] the embeddings of their tasks [n]."""
        embedded = self.embed(task)
        return SequenceBatch(
            _join(batch.observation, embedded.detach()),
            _join(batch.action, embedded),
            batch.reward,
            batch.terminated,
        )


class TaskView:
    """The world model as one of its tasks sees it: that task's own observations [..., o] and actions [..., a]."""

    def __init__(self, model: TaskWorldModel, task: int) -> None:
        self.model, self.task = model, task

    def encode(self, observation: Tensor) -> Tensor:
        """Normalised [..., o] -> latent [..., L]"""
        return self.model.encode(self._conditioned(observation, self.model.observations))

    def step(self, latent: Tensor, action: Tensor) -> Tensor:
        """[batch, L], [batch, a] -> next latent [batch, L]"""
        return self.model.step(latent, self._conditioned(action, self.model.actions))

    def reward(self, latent: Tensor, action: Tensor) -> Tensor:
        """[..., L], [..., a] -> predicted scaled reward [...]"""
        return self.model.reward(latent, self._conditioned(action, self.model.actions))

    def continues(self, latent: Tensor) -> Tensor:
        return self.model.continues(latent)

    def _conditioned(self, values: Tensor, width: int) -> Tensor:
        """The mask of a task: elements it does not have are zero, as in its data."""
        padded = F.pad(values, (0, width - values.shape[-1]))
        return _join(padded, self.model.embed(self.task).detach())


def _join(values: Tensor, embedded: Tensor) -> Tensor:
    """[..., v], [E] or [n, E] -> [..., v + E]"""
    return torch.cat([values, embedded.expand(*values.shape[:-1], -1)], -1)
