"""Is a stored state one that this trainer could have written? Asked before the trainer takes it in.

Every byte of it may be a stranger's, who can hash. A freshly opened trainer says what belongs where: a tensor that it has
too must have its shape and type, and must be finite where the trainer's own is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from eigen2.algorithms.contract import Trainer
from eigen2.errors import ResourceError
from eigen2.memory import limits
from eigen2.store.checkpoints import Checkpoint

STATE_COPIES = 2
"""The blobs of a state and the tensors made of them lie in memory side by side."""


def load_state(trainer: Trainer, checkpoint: Checkpoint, state: dict[str, Any]) -> None:
    """Put a checkpoint's state into a freshly opened trainer; what cannot be its state is damage."""
    with checkpoint.loading():
        wrong = next(_contradictions(trainer.state_dict(), trainer.upgraded(state), ""), None)
        if wrong is not None:
            raise checkpoint.unusable(wrong)
        trainer.load_state_dict(state)


def require_memory(count: int, what: str) -> None:
    """Refuse to read what would not fit into the memory that is left."""
    limit = limits.limit()
    free = limit.bytes - limits.in_use(limit)
    if count > free:
        raise ResourceError(
            f"{what} needs {count:,} bytes of memory and {max(0, free):,} are free ({limit.source}); "
            "use a larger machine, or do not use the run if you did not make it."
        )


def state_bytes(checkpoint: Checkpoint) -> int:
    """Memory that reading a checkpoint's state takes, by the sizes in its manifest."""
    return STATE_COPIES * sum(ref.size for ref in checkpoint.manifest.below("state/").values())


def _contradictions(own: Any, stored: Any, path: str) -> Iterator[str]:
    """What in a stored state cannot come from a trainer whose own state is `own`, as sentences."""
    if isinstance(own, Mapping) and isinstance(stored, Mapping):
        for key in own.keys() & stored.keys():
            yield from _contradictions(own[key], stored[key], f"{path}/{key}")
    elif isinstance(own, list | tuple) and isinstance(stored, list | tuple):
        for number, (mine, theirs) in enumerate(zip(own, stored, strict=False)):
            yield from _contradictions(mine, theirs, f"{path}/{number}")
    elif _is_tensor(own):
        if not _is_tensor(stored):
            yield f"{path} is a {type(stored).__name__}, not a tensor"
        elif (own.shape, own.dtype) != (stored.shape, stored.dtype):
            yield (
                f"{path} is {list(stored.shape)} {stored.dtype}, this trainer has {list(own.shape)} {own.dtype}"
            )
        elif own.is_floating_point() and not stored.isfinite().all() and own.isfinite().all():
            yield f"{path} is not finite"


def _is_tensor(value: Any) -> bool:
    # By name: whoever only compares has not imported torch.
    return type(value).__name__ in ("Tensor", "Parameter") and hasattr(value, "is_floating_point")
