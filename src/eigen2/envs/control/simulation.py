"""Many copies of one control task, stepped together by MuJoCo's batch, in one thread.

The whole state (physics with its warm start, step counters, last
actions, position of the random stream) can be saved and restored exactly.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigen2.envs.control.camera import Camera, model_text
from eigen2.envs.control.environments import Bools, Environments, Floats32, Stage, Step, checked_seeds
from eigen2.envs.control.task import Floats, SimulatedTask
from eigen2.errors import ConfigError, DamagedStateError
from eigen2.seeds import generator


class SimulatedEnvironments(Environments):
    """Start states come from the stream (seed, purpose, number of resets so far), or from an episode's own seed."""

    task: SimulatedTask

    def __init__(self, task: SimulatedTask, count: int) -> None:
        self.task = task
        self.count = count
        self._stream: tuple[int, str] | None = None
        """Seed and purpose of a stream; None while single episodes are played."""
        self._batch = _batch(task, count)
        self._qpos: Floats = self._batch.bind("qpos")
        self._qvel: Floats = self._batch.bind("qvel")
        self._ctrl: Floats = self._batch.bind("ctrl")
        self._last_action: Floats = np.zeros((count, task.action_size))
        self._steps = np.zeros(count, dtype=np.int64)
        self._playing: Bools = np.zeros(count, dtype=np.bool_)
        self._resets = 0
        self.faults = 0
        """Episodes cut because the simulation diverged; they are reported as terminated with reward 0."""
        self.observation: Floats32 = np.zeros((count, task.observation_size), dtype=np.float32)

    @property
    def position(self) -> Floats:
        """Joints of the first simulation [nq]."""
        first: Floats = self._qpos[0]
        return first

    def restart(self, seed: int, purpose: str) -> None:
        self._stream = (seed, purpose)
        self._playing[:] = True
        self._resets = self.faults = 0
        self._start_next(np.arange(self.count))
        self.observation = self._observe().astype(np.float32)

    def reset(self, seeds: Sequence[int]) -> None:
        self._stream = None
        self._playing = np.arange(self.count) < len(checked_seeds(seeds, self.count))
        starts = [self.task.start(1, generator(int(seed), "episode")) for seed in seeds]
        position, velocity = (np.concatenate(values) for values in zip(*starts, strict=True))
        self._start(np.arange(len(seeds)), position, velocity)
        self.observation = np.zeros_like(self.observation)
        self.observation[: len(seeds)] = self._observe()[: len(seeds)]

    def step(self, action: NDArray[Any]) -> Step:
        """Actions are cut to [-1, 1]."""
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
        reward = self.task.reward(exact, self._last_action)
        terminated = self.task.terminated(exact)
        successor = exact.astype(np.float32)
        # MuJoCo silently resets a diverged simulation and only raises its warning counter.
        diverged = (self._warnings() > warned) & self._playing
        if diverged.any():
            self.faults += int(diverged.sum())
            successor[diverged] = self.observation[diverged]
            reward[diverged] = 0.0
            terminated |= diverged
        truncated = (self._steps >= self.task.episode_steps) & ~terminated
        if self._stream is None:
            return self._frozen(successor, reward, terminated, truncated)

        ended = np.flatnonzero(terminated | truncated)
        self.observation = successor
        if len(ended):
            self._start_next(ended)
            self.observation = successor.copy()
            self.observation[ended] = self._observe()[ended]
        return Step(self.observation, successor, reward.astype(np.float32), terminated, truncated)

    def _frozen(self, successor: Floats32, reward: Floats, terminated: Bools, truncated: Bools) -> Step:
        """A step of single episodes: whatever the simulator makes of those that are over is ignored."""
        playing = self._playing
        self.observation = np.where(playing[:, None], successor, self.observation)
        self._playing = playing & ~(terminated | truncated)
        return Step(
            self.observation,
            self.observation,
            np.where(playing, reward, 0.0),
            terminated & playing,
            truncated & playing,
        )

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

    def _start_next(self, which: NDArray[np.int64]) -> None:
        """The next episodes of a stream."""
        assert self._stream is not None
        stream = generator(*self._stream, self._resets)
        self._resets += 1
        self._start(which, *self.task.start(len(which), stream))

    def _start(self, which: NDArray[np.int64], position: Floats, velocity: Floats) -> None:
        from mujoco import mjtStage

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


def staged(task: SimulatedTask, width: int, height: int) -> Stage:
    environments = SimulatedEnvironments(task, 1)
    camera = Camera(model_text(task.model), width, height)
    return Stage(
        environments,
        lambda: camera.picture(environments.position),
        camera.timestep * task.substeps,
        camera.close,
    )


def _batch(task: SimulatedTask, count: int) -> Any:
    try:
        import mujoco
        from mujoco.batch import Batch
    except ImportError as error:
        raise ConfigError(f"{task.name} needs MuJoCo 4 or newer: pip install 'eigen2[control]'") from error
    # Divergence is read from the counters; MuJoCo's own handler would also write a log into the working directory.
    mujoco.set_mju_user_warning(_ignore_warning)
    return Batch(mujoco.MjModel.from_xml_string(model_text(task.model)), count, nthread=1)


def _ignore_warning(message: str) -> None:
    """Takes the place of MuJoCo's log file."""
