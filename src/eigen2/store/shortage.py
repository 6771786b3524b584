"""Too little memory, whoever notices it: Python and NumPy raise MemoryError, torch a RuntimeError, zstd an error of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

from eigen2.errors import ResourceError

_WORDS = {
    "RuntimeError": ("can't allocate memory", "out of memory", "can't start new thread"),
    "ZstdError": ("not enough memory",),
    "ImportError": ("annot allocate memory", "failed to map segment"),
}


def is_shortage(error: BaseException) -> bool:
    """Whether `error` says that memory could not be had."""
    # By name: whoever asks may not have torch.
    kind = type(error).__name__
    return (
        isinstance(error, MemoryError)
        or kind == "OutOfMemoryError"
        or any(words in str(error) for words in _WORDS.get(kind, ()))
    )


@contextmanager
def within_memory(what: str) -> Iterator[None]:
    """Inside, a shortage of memory is a ResourceError that says what did not fit."""
    try:
        yield
    except Exception as error:
        if not is_shortage(error):
            raise
        raise ResourceError(f"{what} did not fit into memory") from error
