"""Priorities in a binary tree whose nodes are the sums of their children, in NumPy.

A parent is always exactly ``left + right`` of what is below it now, so a tree rebuilt from its leaves equals, bit for
bit, the tree that was updated step by step.
"""

import numpy as np
import numpy.typing as npt


class SumTree:
    def __init__(self, leaves: int) -> None:
        self.size = 1 << max(0, (leaves - 1).bit_length())
        self.leaves = leaves
        self._nodes: npt.NDArray[np.float64] = np.zeros(2 * self.size)

    @property
    def total(self) -> float:
        return float(self._nodes[1])

    @property
    def nbytes(self) -> int:
        return self._nodes.nbytes

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """Leaf values ``[leaves]``, a view."""
        return self._nodes[self.size : self.size + self.leaves]

    def set(self, leaf: npt.NDArray[np.int64], value: npt.NDArray[np.float64] | float) -> None:
        """Set leaves; where a leaf is named twice the last value holds."""
        node = leaf + self.size
        self._nodes[node] = value
        while len(node) and self.size > 1:
            node = np.unique(node >> 1)
            self._nodes[node] = self._nodes[2 * node] + self._nodes[2 * node + 1]
            if node[0] == 1:
                break

    def load(self, values: npt.NDArray[np.float64]) -> None:
        """Replace all leaves."""
        self._nodes[:] = 0.0
        self._nodes[self.size : self.size + self.leaves] = values
        level = self.size
        while level > 1:
            pairs = self._nodes[level : 2 * level]
            level //= 2
            self._nodes[level : 2 * level] = pairs[0::2] + pairs[1::2]

    def find(self, mass: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """The leaf in which each cumulative mass ``[n]`` in ``[0, total)`` falls; never one of value zero."""
        node = np.ones(len(mass), np.int64)
        rest = mass.astype(np.float64)
        while node[0] < self.size:
            left = self._nodes[2 * node]
            # Rounding may leave a rest just beyond the right subtree; an empty subtree is never entered.
            right = (rest >= left) & (self._nodes[2 * node + 1] > 0.0) | (left <= 0.0)
            rest = np.where(right, rest - left, rest)
            node = 2 * node + right
        return node - self.size
