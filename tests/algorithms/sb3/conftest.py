"""Small SB3 trainers, and a way through the store and back."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from eigen2.algorithms.contract import Services
from eigen2.algorithms.sb3 import SB3Config
from eigen2.algorithms.sb3.trainer import SB3Trainer
from eigen2.config import Config
from eigen2.envs.config import EnvConfig, GymConfig
from eigen2.evaluation.problem import open_problem
from eigen2.replay import Replay
from eigen2.replay.config import ReplayConfig
from eigen2.store import state as states
from eigen2.store.memory import MemoryObjects

SMALL: dict[str, dict[str, Any]] = {
    "sac": {"learning_starts": 30, "batch_size": 8, "policy_kwargs": {"net_arch": [8]}},
    "td3": {"learning_starts": 30, "batch_size": 8, "policy_kwargs": {"net_arch": [8]}, "action_noise": 0.1},
    "ppo": {"n_steps": 40, "batch_size": 20, "n_epochs": 2, "policy_kwargs": {"net_arch": [8]}},
}
Make = Callable[..., SB3Trainer]


class Drift(gymnasium.Env[Any, Any]):
    """A walk that its actions push; it terminates outside [-1, 1], after some 20 random steps."""

    observation_space = Box(-9.0, 9.0, (2,))
    action_space = Box(-2.0, 2.0, (1,))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-0.5, 0.5, 2).astype(np.float32)
        return self.at.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += np.float32(0.1) * action[0] + self.np_random.normal(0.0, 0.2, 2).astype(np.float32)
        self.at = np.clip(self.at, -5.0, 5.0)
        return (
            self.at.copy(),
            float(1.0 - np.abs(self.at).sum()),
            bool(np.abs(self.at).max() > 1.0),
            False,
            {},
        )


class Forgetful(Drift):
    """Draws from a generator that its seed does not reach."""

    entropy = np.random.default_rng(0)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += np.float32(0.01 * self.entropy.normal())
        return super().step(action)


@pytest.fixture(autouse=True)
def environments() -> Iterator[None]:
    gymnasium.register("test/Drift-v0", lambda **_: Drift(), max_episode_steps=40)
    gymnasium.register("test/Forgetful-v0", lambda **_: Forgetful(), max_episode_steps=40)
    yield
    for name in ("test/Drift-v0", "test/Forgetful-v0"):
        del gymnasium.registry[name]


@pytest.fixture
def make() -> Iterator[Make]:
    opened: list[SB3Trainer] = []

    def trainer(algorithm: str, env: str | EnvConfig = "test/Drift-v0", **options: Any) -> SB3Trainer:
        settings = SMALL[algorithm] | options.pop("settings", {})
        alg = SB3Config(
            algorithm=algorithm, settings=settings,
            **({"steps_per_round": 40, "env_steps": 240, "evaluate_episodes": 1} | options),
        )  # fmt: skip
        place = GymConfig(id=env) if isinstance(env, str) else env
        config = Config(seed=3, device="cpu", alg=alg, env=place, replay=ReplayConfig(capacity=150))
        made = SB3Trainer(config, open_problem(place, config.seed), Services(None, states.fingerprint))  # type: ignore[arg-type]
        opened.append(made)
        return made

    yield trainer
    for made in opened:
        made.problem.close()


Saved = tuple[dict[str, Any], Callable[[], Replay | None]]


@pytest.fixture
def saved() -> Callable[[SB3Trainer], Saved]:
    def save(trainer: SB3Trainer) -> Saved:
        """The state as it comes back from the store, and its replay."""
        kept, objects = states.freeze(trainer.state_dict()), MemoryObjects()
        blobs = {name: b"".join(map(bytes, chunks)) for name, chunks in states.blobs(kept)}
        back = states.from_blobs(list(blobs), blobs.__getitem__)
        assert states.fingerprint(back) == states.fingerprint(kept)
        if trainer.replay is None:
            return back, lambda: None
        manifest = trainer.replay.snapshot().write(objects.put, objects.has)
        return back, lambda: Replay.restore(manifest, objects.read)

    return save


class GlobalGenerators:
    def disturb(self) -> None:
        torch.manual_seed(99)
        np.random.seed(98)  # noqa: NPY002
        random.seed(97)

    def take(self) -> list[Any]:
        numpy = np.random.get_state(legacy=False)  # noqa: NPY002
        return [torch.get_rng_state().tolist(), numpy["state"]["key"].tolist(), random.getstate()]


@pytest.fixture
def generators() -> GlobalGenerators:
    return GlobalGenerators()


@pytest.fixture
def small() -> dict[str, dict[str, Any]]:
    return SMALL
