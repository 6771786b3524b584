"""When learners train. Gradient finds the way fast and then overfits; evolution is slow and does not."""

import math

from eigen2.algorithms.erl.config import ERLConfig


def skips_training(config: ERLConfig, generation: int) -> bool:
    """With `training_decay_after` = n: never before generation n, then in ever more generations."""
    after = config.training_decay_after
    if after is None or config.variation == "none":
        return False
    return _trainings(generation, after) == _trainings(generation + 1, after)


def _trainings(generation: int, after: int) -> int:
    """How often learners train before `generation`: always up to `after`, beyond it like the logarithm."""
    if generation <= after:
        return generation
    return math.floor(after * (1.0 + math.log(generation / after)))
