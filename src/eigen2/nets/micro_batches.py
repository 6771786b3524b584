"""A batch that does not fit onto the device is worked on in parts, whose gradients are added up.

The parts give the same gradient up to rounding. A batch that fits is never cut, and nothing changes for it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from eigen2.errors import ResourceError, is_out_of_memory

Result = TypeVar("Result")
Gradients = tuple[Tensor, ...]
Compute = Callable[[slice], tuple[Tensor, Gradients]]
"""Means over some rows, and their gradients."""


class MicroBatches:
    """How many parts the batches of one trainer are cut into: twice as many whenever the device has run out of memory."""

    def __init__(self) -> None:
        self.parts = 1
        self._news: list[dict[str, Any]] = []

    def take_news(self) -> list[dict[str, Any]]:
        """Events since the last call."""
        news, self._news = self._news, []
        return news

    def work(self, what: str, rows: int, attempt: Callable[[list[slice]], Result]) -> Result:
        """`attempt` on all `rows`, given as slices that are worked on one after the other; again with slices of half the
        size when it runs out of memory. It must not change anything before it succeeds."""
        while True:
            try:
                return attempt(self._slices(rows))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                reason = str(error).splitlines()[0]
            # Outside the handler: there the error still holds what the attempt had allocated.
            self._halve(what, rows, reason)

    def gradients(self, what: str, rows: int, compute: Compute) -> tuple[Tensor, Gradients]:
        """Means over all rows, and their gradients."""
        return self.work(what, rows, lambda parts: added_up(parts, compute))

    def _slices(self, rows: int) -> list[slice]:
        size = -(-rows // min(self.parts, rows))
        return [slice(first, min(first + size, rows)) for first in range(0, rows, size)]

    def _halve(self, what: str, rows: int, reason: str) -> None:
        if self.parts >= rows:
            raise ResourceError(
                f"The {what} does not fit onto the device even one row at a time ({reason}); use smaller networks, or device=cpu."
            )
        torch.cuda.empty_cache()  # Nothing, where CUDA was not used.
        self.parts *= 2
        size = self._slices(rows)[0].stop
        self._news.append(
            {
                "kind": "out_of_memory",
                "message": f"The {what} does not fit onto the device with {rows} rows at a time ({reason}): from now on in "
                f"{self.parts} parts, here of {size} rows. The sum over parts is rounded differently in the last bits.",
                "rows": rows,
                "parts": self.parts,
            }
        )


def added_up(parts: list[slice], compute: Compute) -> tuple[Tensor, Gradients]:
    """Means over all rows, and their gradients; one part is taken as it is."""
    if len(parts) == 1:
        mean, gradients = compute(parts[0])
        return mean.detach(), gradients
    rows = sum(part.stop - part.start for part in parts)
    total: Tensor | None = None
    added: list[Tensor] = []
    for part in parts:
        share = (part.stop - part.start) / rows
        mean, gradients = compute(part)
        total = share * mean.detach() if total is None else total + share * mean.detach()
        if added:
            torch._foreach_add_(added, list(gradients), alpha=share)
        else:
            added = [share * gradient for gradient in gradients]
    assert total is not None
    return total, tuple(added)
