"""How a command fails: one sentence on stderr, and an exit code of the table in the README."""

import errno
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from rich.console import Console

from eigen2.cloud.words import legible
from eigen2.errors import ConfigError, Eigen2Error, ResourceError, is_out_of_memory
from eigen2.store.disk import BROKEN, FULL, NOT_WRITABLE
from eigen2.store.shortage import is_shortage


@contextmanager
def one_sentence(debug: bool) -> Iterator[None]:
    """Failures in between end the process; with `debug`, after their traceback."""
    try:
        yield
    except Eigen2Error as error:
        _fail(str(error), error.exit_code, debug)
    except OSError as error:
        _fail(*disk_words(error), debug)
    except (MemoryError, RuntimeError, ImportError) as error:
        if not (is_out_of_memory(error) or is_shortage(error)):
            raise
        _fail(
            f"It does not fit into memory ({_first_line(error)}); `eigen2 plan` says what a run needs.",
            ResourceError.exit_code,
            debug,
        )


def disk_words(error: OSError) -> tuple[str, int]:
    """What is wrong with a disk, where, and what to do; and the exit code."""
    what = f"{error.filename or 'a file'} cannot be used ({error.strerror or error})"
    if error.errno in FULL:
        return f"{what}; free some space and try again.", ResourceError.exit_code
    if error.errno in BROKEN:
        return f"{what}; the disk is failing: use another.", ResourceError.exit_code
    if error.errno == errno.ENOMEM:
        return f"{what}; `eigen2 plan` says what memory a run needs.", ResourceError.exit_code
    if error.errno == errno.ENOENT:
        return f"{error.filename or 'A file'} is not there; it was moved or deleted.", ConfigError.exit_code
    if error.errno in NOT_WRITABLE:
        return f"{what}; make it accessible, or use another place.", ConfigError.exit_code
    return f"{error}; --debug shows where it happened.", Eigen2Error.exit_code


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _fail(sentence: str, code: int, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exc()
    Console(stderr=True).print(f"eigen2: {legible(sentence)}", highlight=False, markup=False, soft_wrap=True)
    raise SystemExit(code)
