"""The best evaluation of a run: the score, the weights it was of, and when to roll back to them."""

from collections.abc import Callable
from typing import Any


class Best:
    """`record` every evaluation; `weights` are nested dicts as in a `state_dict`, empty before the first."""

    def __init__(self) -> None:
        self.score = float("-inf")
        self.iteration = 0
        self.weights: dict[str, Any] = {}
        self.lowest = float("inf")
        """The worst evaluation so far."""

    def record(self, score: float, iteration: int, weights: Callable[[], dict[str, Any]]) -> None:
        """`weights` is called for a copy of the weights if the evaluation is the best so far."""
        self.lowest = min(self.lowest, score)
        if score > self.score:
            self.score, self.iteration, self.weights = score, iteration, weights()

    def lost(self, score: float) -> float:
        """(best - score) / (best - worst): the part of the gain that is missing at `score`, 0 to 1."""
        return (self.score - score) / max(self.score - self.lowest, 1e-9)

    def state_dict(self) -> dict[str, Any]:
        return {
            "score": self.score,
            "iteration": self.iteration,
            "weights": dict(self.weights),
            "lowest": self.lowest,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.score, self.iteration = float(state["score"]), int(state["iteration"])
        self.weights = dict(state["weights"])
        self.lowest = float(state["lowest"])


def rollback_threshold(lr_scale: float, rollback: bool) -> float:
    """The best weights are restored when more than this part of the gain is lost: min(1, 5 lr / lr0).

    It only binds in the last 20 % of training: before, bad evaluations are the way to better ones; what is lost last is
    not found again. Without `rollback` nothing is ever restored.
    """
    return min(1.0, 5.0 * lr_scale) if rollback else 1.0
