"""One generation with a few updates: it holds what every generation holds."""

from typing import TYPE_CHECKING

from eigen2.algorithms.contract import Calibration, StepSeconds
from eigen2.algorithms.erl.config import ERLConfig

if TYPE_CHECKING:
    from eigen2.config import Config

FEW = 2
"""Updates of each kind; the actor's come with every second one of the critics."""


def erl_calibration(config: "Config") -> Calibration:
    alg = config.alg
    assert isinstance(alg, ERLConfig)
    few = {
        "gradient_steps": min(alg.gradient_steps, max(FEW, alg.policy_delay)),
        "direct_steps": min(alg.direct_steps, FEW),
        "learning_starts": 0,
    }
    short = alg.model_copy(update=few)
    updates = alg.gradient_steps + alg.direct_steps
    measured = short.gradient_steps + short.direct_steps

    def seconds(steps: StepSeconds, total: int) -> float:
        train = steps[0].get("train", 0.0)
        rest = sum(steps[0].values()) - train
        return total * (rest + train * updates / max(1, measured))

    return Calibration(config.model_copy(update={"alg": short}), 1, seconds)
