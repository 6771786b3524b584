"""What a stored config may ask for. It may be a stranger's: code and places outside are taken from the user alone.

A value that names Python code to import counts when it was typed. A place that a run is sent to counts when the user has
named it, now or before (it is remembered in XDG_STATE_HOME), or when it is a directory that holds this run already.
"""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigen2.errors import ConfigError, Eigen2Error
from eigen2.section import importing
from eigen2.store.durable import append, make_directory
from eigen2.store.plain_files import read_plain

if TYPE_CHECKING:
    from eigen2.cloud.location import Location
    from eigen2.config import Config
    from eigen2.harness.run import Run

LONGEST = 1 << 20
"""Bytes of the file that remembers places."""
WANDB = "wandb"


def typed_words(arguments: Iterable[str]) -> frozenset[str]:
    """The values in words of the command line: `env.id=my_tasks:Reach-v0` holds my_tasks:Reach-v0."""
    return frozenset(
        word for argument in arguments for word in re.split(r"[=,\[\]{}'\"\s]+", argument) if word
    )


def check_code(config: "Config", typed: frozenset[str], where: Path) -> None:
    """Refuse a stored config that would import Python code which the user has not named."""
    for key, value in importing(config).items():
        if value not in typed:
            raise ConfigError(
                f"{where} names {key}={value[:200]}, which imports Python code, and a stored config imports none. If you "
                f"trust that module, name it yourself: --env-id {value[:200]}."
            )


def check_place(location: "Location", run: "Run") -> None:
    """Refuse to send a run to a place that only its stored config names."""
    from eigen2.cloud.location import from_environment

    given = from_environment(os.environ)
    if (given is not None and given.url == location.url) or location.url in _remembered():
        return
    if not _holds(location, run):
        raise ConfigError(
            f"{run.config_file} sends the run to {location.url}, a place that you have not named here. If it is yours, "
            f"name it: `eigen2 train --resume {run.path} cloud.url={location.url}`, or --to with sync; cloud.url=off "
            "continues without it."
        )


def remember_place(location: "Location", say: Callable[[str], None]) -> None:
    """The user has named this place: a resume may keep sending there."""
    _remember(location.url, say)


def remember_wandb(say: Callable[[str], None]) -> None:
    """The user has asked for Weights & Biases: a resume may keep sending there."""
    _remember(WANDB, say)


def may_send_to_wandb() -> bool:
    """Whether the user wants that, whatever a stored config says."""
    return "WANDB_MODE" in os.environ or WANDB in _remembered()


def _remember(place: str, say: Callable[[str], None]) -> None:
    file = _places()
    try:
        if place not in _remembered():
            make_directory(file.parent)
            append(file, f"{place}\n".encode())
    except OSError as error:
        say(f"{file} cannot be written ({error.strerror}); a resume must name {place} again.")


def _places() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state).absolute() / "eigen2" / "places"


def _remembered() -> set[str]:
    try:
        return set(read_plain(_places(), LONGEST).decode(errors="replace").splitlines())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return set()


def _holds(location: "Location", run: "Run") -> bool:
    """Whether a directory holds this very run: then it was sent there before."""
    from eigen2.cloud.local import LocalBucket
    from eigen2.cloud.pull import read_facts

    if location.directory is None:
        return False
    try:
        there: Any = read_facts(LocalBucket(location), run.name).get("id")
    except Eigen2Error:
        return False
    return there is not None and there == run.metadata().get("id")
