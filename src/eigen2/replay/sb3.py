"""The replay for Stable-Baselines3: ``SAC(policy, env, replay_buffer_class=StoredReplayBuffer)`` trains on our store."""

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from eigen2.replay.buffer import Replay
from eigen2.replay.schema import STEP_FIELDS, Field, Schema, schema_from_spaces, vector_schema


class StoredReplayBuffer(ReplayBuffer):
    """Box and Dict observations. Terminated and truncated are kept apart, `next_obs` is stored once.

    `replay` is the store itself: snapshot it, or hand in a restored one to go on with. `rows` says that an observation,
    a vector, is a stack of that many.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        seed: int = 0,
        replay: Replay | None = None,
        compress: bool = True,
        rows: int | None = None,
    ) -> None:
        # ReplayBuffer's own constructor would allocate its arrays; only its base is wanted.
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        spaces = schema_from_spaces(observation_space, action_space)
        action = Field(
            "action", (self.action_dim,), np.dtype(self._maybe_cast_dtype(action_space.dtype)).name
        )
        observation = spaces.observation
        if rows:
            observation = vector_schema(observation[0].shape[0], self.action_dim, rows=rows).observation
        schema = Schema(observation, (action, *STEP_FIELDS))
        if replay is not None and replay.schema != schema:
            raise ValueError(f"the replay has schema {replay.schema}, this environment needs {schema}")
        self.replay = replay or Replay(schema, max(buffer_size, n_envs), seed, compress=compress)

    def size(self) -> int:
        return len(self.replay)

    def reset(self) -> None:
        old = self.replay
        self.replay = Replay(old.schema, old.capacity, old.seed, compress=old.compress)

    def add(
        self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]
    ) -> None:
        """One step of all environments, as SB3's collector hands it over."""
        timeout = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        ended = np.asarray(done, bool)
        truncated = ended & timeout & self.handle_timeout_termination
        steps = self._named(obs) | {
            "action": np.asarray(action).reshape(self.n_envs, self.action_dim),
            "reward": np.asarray(reward, np.float32),
            "terminated": ended & ~truncated,
            "truncated": truncated,
        }
        self.replay.extend({name: array[None] for name, array in steps.items()}, self._named(next_obs))

    def sample(  # type: ignore[override]
        self, batch_size: int, env: VecNormalize | None = None
    ) -> ReplayBufferSamples | DictReplayBufferSamples:
        batch = self.replay.sample(batch_size).clone()
        observation, following = (
            self._observations(fields, env) for fields in (batch.observation, batch.next_observation)
        )
        rewards = self._normalize_reward(batch.step["reward"].numpy()[:, None], env)
        kind = DictReplayBufferSamples if isinstance(observation, dict) else ReplayBufferSamples
        return kind(
            observation,
            batch.step["action"].to(self.device),
            following,
            batch.step["terminated"].float()[:, None].to(self.device),
            self.to_torch(rewards),
        )

    def _named(self, observation: Any) -> dict[str, np.ndarray[Any, Any]]:
        named = observation if isinstance(observation, dict) else {"obs": observation}
        return {
            f.name: np.asarray(named[f.name]).reshape(self.n_envs, *f.shape)
            for f in self.replay.schema.observation
        }

    def _observations(self, fields: dict[str, torch.Tensor], env: VecNormalize | None) -> Any:
        arrays: Any = {name: tensor.numpy() for name, tensor in fields.items()}
        if not isinstance(self.observation_space, gym.spaces.Dict):
            return self.to_torch(self._normalize_obs(arrays["obs"], env))  # type: ignore[arg-type]
        return {name: self.to_torch(array) for name, array in self._normalize_obs(arrays, env).items()}  # type: ignore[union-attr]
