"""Standard output for the answer of a program alone: environments of other people print, and so do their simulators."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def answering() -> Iterator[TextIO]:
    """Yields what standard output is; what is printed in between, also by native code and workers, goes to stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(kept, "w", encoding="utf-8", closefd=False) as answer:
            yield answer
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
