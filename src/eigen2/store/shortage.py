"""Too little memory, whoever notices it: Python and NumPy raise MemoryError, torch a RuntimeError."""

from collections.abc import Iterator
from contextlib import contextmanager

from eigen2.errors import ResourceError

_TORCH = ("can't allocate memory", "out of memory")


def is_shortage(error: BaseException) -> bool:
    """Whether `error` says that memory could not be had."""
    if isinstance(error, RuntimeError):
        # By its name: whoever asks may not have torch.
        return type(error).__name__ == "OutOfMemoryError" or any(words in str(error) for words in _TORCH)
    return isinstance(error, MemoryError)


@contextmanager
def within_memory(what: str) -> Iterator[None]:
    """Inside, a shortage of memory is a ResourceError that says what did not fit."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_shortage(error):
            raise
        raise ResourceError(f"{what} did not fit into memory") from error
