"""Running statistics that networks are fed with; saved and restored like weights."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Normaliser:
    """Mean and deviation of every element over all data seen so far (count-weighted, in float64)."""

    def __init__(self, size: int) -> None:
        self.count = 0.0
        self.mean: NDArray[np.float64] = np.zeros(size)
        self.square: NDArray[np.float64] = np.zeros(size)
        """Sum of squared deviations from the mean."""

    def update(self, batch: NDArray[Any]) -> None:
        """batch [..., size]"""
        rows = batch.reshape(-1, batch.shape[-1]).astype(np.float64)
        count, mean = len(rows), rows.mean(0)
        total = self.count + count
        shift = mean - self.mean
        self.square += np.square(rows - mean).sum(0) + shift**2 * self.count * count / total
        self.mean = self.mean + shift * count / total
        self.count = total

    @property
    def deviation(self) -> NDArray[np.float64]:
        """At least 1e-2, so that elements that never move stay small instead of becoming noise."""
        if self.count == 0:
            return np.ones_like(self.mean)
        return np.maximum(np.sqrt(self.square / self.count), 1e-2)

    def tensors(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """mean and 1 / deviation, float32 [size]"""
        mean = torch.from_numpy(self.mean.astype(np.float32)).to(device)
        return mean, torch.from_numpy((1.0 / self.deviation).astype(np.float32)).to(device)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "mean": self.mean.copy(), "square": self.square.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = float(state["count"])
        self.mean = np.asarray(state["mean"]).astype(np.float64)
        self.square = np.asarray(state["square"]).astype(np.float64)
