"""ERL: a population of agents that learns by gradient and by evolution. Importing this imports no torch."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigen2.algorithms.contract import Algorithm, Calibration, Champion, Experiment, Needs, Services
from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.presets import read_presets
from eigen2.envs.control.config import TasksConfig
from eigen2.section import Section

if TYPE_CHECKING:
    from eigen2.config import Config


class ERL(Algorithm):
    name = "erl"
    config = ERLConfig

    def presets(self) -> Mapping[str, Mapping[str, Any]]:
        return read_presets("eigen2.algorithms.erl.presets")

    def accepts(self, env: Section) -> str | None:
        if isinstance(env, TasksConfig):
            return "ERL learns one environment at a time; env=tasks is for alg=pwm_tiny and its relatives."
        return None

    def refuses(self, config: "Config", days: Mapping[str, int]) -> list[str]:
        from eigen2.algorithms.erl.sentences import episode_does_not_fit, looks_back_too_far
        from eigen2.envs.config import TradingConfig
        from eigen2.envs.trading.episodes import episode_steps

        env, alg = config.env, config.alg
        if not isinstance(env, TradingConfig) or not isinstance(alg, ERLConfig):
            return []
        history, refused = 2**alg.encoder_layers, []
        if history > env.window:
            refused.append(looks_back_too_far(alg.encoder_layers, history, env.window))
        if days and days["validation"] <= episode_steps(env):
            refused.append(episode_does_not_fit(env, days["validation"], "validation"))
        return refused

    def needs(self, config: "Config", services: Services) -> Needs | None:
        from eigen2.algorithms.erl.needs import erl_needs

        return erl_needs(config, services.data)

    def calibration(self, config: "Config") -> Calibration:
        from eigen2.algorithms.erl.calibration import erl_calibration

        return erl_calibration(config)

    def load(self, directory: Path) -> Champion:
        from eigen2.algorithms.erl.exported import load_champion

        return load_champion(directory)

    def open(self, config: "Config", services: Services) -> AbstractContextManager[Experiment]:
        from eigen2.algorithms.erl.experiment import open_experiment

        return open_experiment(config, services)
