"""The best evaluation of a run: the score, the weights it was of, and when to go back to them."""

from collections.abc import Callable
from typing import Any


class Best:
    """`judge` every evaluation; `weights` are nested dicts as in a `state_dict`, empty before the first."""

    def __init__(self) -> None:
        self.score = float("-inf")
        self.iteration = 0
        self.weights: dict[str, Any] = {}
        self.lowest = float("inf")
        """The worst evaluation so far."""

    def judge(
        self, score: float, iteration: int, weights: Callable[[], dict[str, Any]], limit: float
    ) -> bool:
        """Keeps a copy of the weights if it is the best so far. -> whether more than the part `limit` of what was gained
        is lost, so that one should go back"""
        self.lowest = min(self.lowest, score)
        if score > self.score:
            self.score, self.iteration, self.weights = score, iteration, weights()
        return self.lost(score) > limit

    def lost(self, score: float) -> float:
        """How much of what was gained, from the worst evaluation to the best, is missing at `score`: 0 to 1."""
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


def bearable(share: float, go_back: bool) -> float:
    """The part of the gain that may be lost at `share` of the learning rates: all of it until the last fifth of a run,
    since bad evaluations are the way to better ones, then ever less, since what is lost last is not found again. Always
    all of it without `go_back`."""
    return min(1.0, 5.0 * share) if go_back else 1.0
