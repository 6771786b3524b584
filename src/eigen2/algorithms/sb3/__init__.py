"""Stable-Baselines3's SAC, TD3 and PPO, resumed bit for bit. Importing this imports neither torch nor SB3."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from eigen2.algorithms.contract import AlgorithmConfig, Calibration, Needs, Services
from eigen2.algorithms.vector import VectorAlgorithm, VectorTrainer
from eigen2.errors import ConfigError
from eigen2.section import OPERATES, Section

if TYPE_CHECKING:
    from eigen2.config import Config
    from eigen2.evaluation.problem import Problem


class SB3Config(AlgorithmConfig):
    kind: Literal["sb3"] = "sb3"
    algorithm: Literal["sac", "td3", "ppo"] = "sac"
    """Which algorithm of Stable-Baselines3."""
    env_steps: int = Field(20_000, ge=1, json_schema_extra=OPERATES)
    """Environment steps of the whole run, rounded up to whole rounds; can be raised at a resume."""
    steps_per_round: int = Field(1_000, ge=1)
    """Environment steps per round, after which the run can be saved; PPO uses its n_steps instead."""
    settings: dict[str, Any] = {}
    """Arguments of SB3's constructor, e.g. {learning_rate: 0.001}; action_noise is the std of Gaussian noise."""
    evaluate_every: int = Field(1, ge=1)
    """Rounds between evaluations, by which the best policy is chosen."""
    evaluate_episodes: int = Field(5, ge=1)
    """Episodes of each evaluation."""


class SB3(VectorAlgorithm):
    name = "sb3"
    config = SB3Config

    def presets(self) -> dict[str, dict[str, Any]]:
        large = {"replay": {"capacity": 1_000_000}}
        # A deterministic policy explores by noise alone, and SB3 adds none unless told to.
        td3 = {"algorithm": "td3", "settings": {"action_noise": 0.1}, "also": large}
        return {"sb3_sac": {"also": large}, "sb3_td3": td3, "sb3_ppo": {"algorithm": "ppo"}}

    def accepts(self, env: Section) -> str | None:
        several = getattr(env, "kind", None) == "tasks"
        return "SB3 learns one environment: env=gym, env=trading or e.g. env=dflex_ant." if several else None

    def needs(self, config: "Config", services: Services) -> Needs | None:
        from eigen2.algorithms.sb3.needs import sb3_needs

        return sb3_needs(config, services.data)

    def calibration(self, config: "Config") -> Calibration:
        from eigen2.algorithms.sb3.needs import sb3_calibration

        return sb3_calibration(config)

    def trainer(self, config: "Config", problem: "Problem", services: Services) -> VectorTrainer:
        if find_spec("stable_baselines3") is None:
            raise ConfigError("alg=sb3_* needs Stable-Baselines3: pip install eigen2[sb3]")
        from eigen2.algorithms.sb3.trainer import SB3Trainer

        return SB3Trainer(config, problem, services)
