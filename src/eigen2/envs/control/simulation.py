"""Many copies of one control task, stepped together by MuJoCo's threaded batch.

Results do not depend on the number of threads, and the whole state (physics with its warm start, step counters, last
actions, position of the random stream) can be saved and restored exactly.
"""

from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigen2 import seeds
from eigen2.envs.control.environments import Floats32, Step
from eigen2.envs.control.task import Floats, SimulatedTask
from eigen2.errors import ConfigError, DamagedStateError


class ControlBatch:
    """`count` environments in lock step; an environment whose episode ends starts its next one by itself.

    Start states come from the stream (seed, purpose, number of resets so far).
    """

    def __init__(
        self, task: SimulatedTask, count: int, seed: int, purpose: str = "start", threads: int = 1
    ) -> None:
        self.task = task
        self.count = count
        self._seed = seed
        self._purpose = purpose
        self._batch = _batch(task, count, threads)
        self._qpos: Floats = self._batch.bind("qpos")
        self._qvel: Floats = self._batch.bind("qvel")
        self._ctrl: Floats = self._batch.bind("ctrl")
        self._last_action: Floats = np.zeros((count, task.action_size))
        self._steps = np.zeros(count, dtype=np.int64)
        self._resets = 0
        self.faults = 0
        """Episodes cut because the simulation diverged; they are reported as terminated with reward 0."""
        self.observation: Floats32 = self.reset()

    def reset(self) -> Floats32:
        """Starts a new episode everywhere. -> first observations [count, observation_size]"""
        self._start(np.arange(self.count))
        self.observation = self._observe().astype(np.float32)
        return self.observation

    def step(self, action: NDArray[Any]) -> Step:
        """action [count, action_size], cut to [-1, 1]."""
        if action.shape != self._last_action.shape or not np.isfinite(action).all():
            raise ValueError(f"{self.task.name} needs finite actions of shape {self._last_action.shape}")
        warned = self._warnings()
        self._last_action = np.clip(action.astype(np.float64), -1.0, 1.0)
        self._ctrl[:] = self._last_action
        self._batch.step(nstep=self.task.substeps)
        self._steps += 1
        if self.task.speed_limit is not None:
            np.clip(self._qvel, -self.task.speed_limit, self.task.speed_limit, out=self._qvel)

        exact = self._observe()
        reward = self.task.reward(exact, self._last_action).astype(np.float32)
        terminated = self.task.terminated(exact)
        successor = exact.astype(np.float32)
        # MuJoCo silently resets a diverged simulation and only raises its warning counter.
        diverged = self._warnings() > warned
        if diverged.any():
            self.faults += int(diverged.sum())
            successor[diverged] = self.observation[diverged]
            reward[diverged] = 0.0
            terminated |= diverged
        truncated = (self._steps >= self.task.episode_steps) & ~terminated

        ended = np.flatnonzero(terminated | truncated)
        self.observation = successor
        if len(ended):
            self._start(ended)
            self.observation = successor.copy()
            self.observation[ended] = self._observe()[ended]
        return Step(self.observation, successor, reward, terminated, truncated)

    def state_dict(self) -> dict[str, Any]:
        return {
            "task": self.task.name,
            "physics": self._batch.state.copy(),
            "last_action": self._last_action.copy(),
            "steps": self._steps.copy(),
            "resets": self._resets,
            "faults": self.faults,
            "observation": self.observation.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        physics = np.asarray(state["physics"])
        if state["task"] != self.task.name or physics.shape != self._batch.state.shape:
            raise DamagedStateError(
                f"saved state is of {state['task']} with physics {physics.shape}, this is {self.task.name} with "
                f"{self._batch.state.shape}; resume with the config the run was started with"
            )
        self._batch.state[:] = physics
        self._last_action = np.asarray(state["last_action"]).astype(np.float64)
        self._steps = np.asarray(state["steps"]).astype(np.int64)
        self._resets = int(state["resets"])
        self.faults = int(state["faults"])
        self.observation = np.asarray(state["observation"]).astype(np.float32)

    def _start(self, which: NDArray[np.int64]) -> None:
        from mujoco import mjtStage

        stream = seeds.generator(self._seed, self._purpose, self._resets)
        self._resets += 1
        position, velocity = self.task.start(len(which), stream)
        self._batch.reset(which, stage=int(mjtStage.mjSTAGE_NONE))
        self._qpos[which] = position
        self._qvel[which] = velocity
        self._last_action[which] = 0.0
        self._steps[which] = 0

    def _warnings(self) -> NDArray[np.int64]:
        """Warnings raised so far by each simulation; the counter [simulation, kind, (last information, number)]."""
        number: NDArray[np.int64] = self._batch.warning[:, :, 1].sum(1)
        return number

    def _observe(self) -> Floats:
        return self.task.observe(self._qpos, self._qvel, self._last_action)


def _batch(task: SimulatedTask, count: int, threads: int) -> Any:
    try:
        import mujoco
        from mujoco.batch import Batch
    except ImportError as error:
        raise ConfigError(f"{task.name} needs MuJoCo 4 or newer: pip install 'eigen2[control]'") from error
    # Divergence is read from the counters; MuJoCo's own handler would also write a log into the working directory.
    mujoco.set_mju_user_warning(_ignore_warning)
    xml = resources.files("eigen2.envs.control").joinpath("models", task.model).read_text()
    return Batch(mujoco.MjModel.from_xml_string(xml), count, nthread=threads)


def _ignore_warning(message: str) -> None:
    """Takes the place of MuJoCo's log file."""
