"""PWM: a policy learned by first-order gradients through a world model, MLP or flow-matching dynamics.

Importing this imports no torch.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigen2.algorithms.contract import Algorithm, Calibration, Champion, Experiment, Needs, Services
from eigen2.algorithms.presets import read_presets
from eigen2.algorithms.pwm.config import PWMConfig
from eigen2.algorithms.pwm.sources import with_located_sources
from eigen2.envs.config import TradingConfig
from eigen2.section import Section

if TYPE_CHECKING:
    from eigen2.config import Config


class PWM(Algorithm):
    name = "pwm"
    config = PWMConfig

    def presets(self) -> Mapping[str, Mapping[str, Any]]:
        return read_presets("eigen2.algorithms.pwm.presets")

    def accepts(self, env: Section) -> str | None:
        if isinstance(env, TradingConfig):
            return "PWM learns control tasks; add e.g. env=pendulum, env=dflex_ant or env=gym."
        return None

    def resolve(self, config: "Config", services: Services) -> "Config":
        return with_located_sources(config, services.datasets)

    def needs(self, config: "Config", services: Services) -> Needs | None:
        from eigen2.algorithms.pwm.needs import pwm_needs

        return pwm_needs(config)

    def calibration(self, config: "Config") -> Calibration | None:
        from eigen2.algorithms.pwm.needs import pwm_calibration

        return pwm_calibration(config)

    def load(self, directory: Path) -> Champion:
        from eigen2.algorithms.pwm.champion import load_champion

        return load_champion(directory)

    def open(self, config: "Config", services: Services) -> AbstractContextManager[Experiment]:
        from eigen2.algorithms.pwm.experiment import open_experiment

        return open_experiment(config, services)
