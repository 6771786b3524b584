"""Failures that are part of the design: one clear sentence each, and the exit code the shell sees."""

from pathlib import Path


class Eigen2Error(Exception):
    """Something the user can act on. The message says what, where, and what to do."""

    exit_code = 1


class ConfigError(Eigen2Error):
    """A bad command, an unknown key or a value out of range."""

    exit_code = 2


class DataError(Eigen2Error):
    """Prices or an environment that cannot be used."""

    exit_code = 3


class MissingDataError(DataError):
    """A file of the user's is not where a key of the config says."""

    def __init__(self, key: str, value: str, message: str) -> None:
        super().__init__(message)
        self.key, self.value = key, value


class ResourceError(Eigen2Error):
    """The work does not fit into RAM or onto the disk."""

    exit_code = 4


def is_out_of_memory(error: BaseException) -> bool:
    """Whether RAM or the memory of a device was used up; torch, which need not be there, says so in several ways."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)


class WorkersLostError(ResourceError):
    """Worker processes died in the middle of a step; the last checkpoint is good."""


class DamagedStateError(Eigen2Error):
    """Stored state does not verify, or training state is no longer finite."""

    exit_code = 5


class StoppedEarly(Eigen2Error):
    """Stopped by a signal or a guard; everything is saved and the run can be resumed."""

    exit_code = 75


class RunGone(Eigen2Error):
    """The run directory is no longer where a process that writes into it found it."""

    exit_code = DamagedStateError.exit_code

    def __init__(self, message: str, place: Path | None = None) -> None:
        super().__init__(message)
        self.place = place
        """Where the directory is now, if that is known."""


class RunMoved(RunGone):
    """It is somewhere else, and can be resumed there."""

    exit_code = StoppedEarly.exit_code
