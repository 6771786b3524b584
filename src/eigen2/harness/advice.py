"""A run that does not fit: which settings would make it fit, and the refusal that says so."""

from collections.abc import Callable, Iterator
from typing import Any

from eigen2.cloud.words import size_words
from eigen2.config import Config, validate
from eigen2.errors import ConfigError, ResourceError
from eigen2.harness.forecast import Forecast
from eigen2.harness.room import Room

MOST = 3
"""Settings that a refusal names."""

Fits = Callable[[Config], bool]


def problems(wanted: Forecast, room: Room) -> list[str]:
    """Sentences, one for each thing of which there is too little."""
    found = []
    if wanted.ram_bytes > room.ram:
        largest = max(wanted.components, key=lambda name: wanted.components[name].ram)
        found.append(
            f"the run needs {size_words(wanted.ram_bytes)} of memory (most of it {largest}: "
            f"{size_words(wanted.components[largest].ram)}), and {size_words(room.ram)} are available ({room.ram_source})"
        )
    if room.gpu and wanted.gpu_bytes > room.gpu:
        found.append(f"it needs {size_words(wanted.gpu_bytes)} on the GPU, which has {size_words(room.gpu)}")
    if wanted.room_bytes > room.disk:
        found.append(
            f"{room.place} needs {size_words(wanted.room_bytes)} of disk space for the run, and {size_words(room.disk)} are free"
        )
    return found


def suggestions(config: Config, knobs: tuple[str, ...], fits: Fits) -> list[tuple[str, Any]]:
    """Single changes after which the run fits, the largest value of each key that does."""
    return [(key, value) for key, value in _suggested(config, knobs, fits)][:MOST]


def refuse(wanted: Forecast, room: Room, advice: list[tuple[str, Any]]) -> None:
    """Raise ResourceError if the run does not fit."""
    found = problems(wanted, room)
    if not found:
        return
    words = [f"{key}={_spelled(value)}" for key, value in advice]
    if words:
        hint = f"It fits with {' or with '.join(words)}"
    elif wanted.ram_bytes > room.ram:
        hint = "No single setting makes it fit: several must be smaller"
    else:
        hint = "Free some space or choose another directory with run.root"
    raise ResourceError(f"{_capital('; '.join(found))}. {hint}; `--force` starts it anyway.")


def _suggested(config: Config, knobs: tuple[str, ...], fits: Fits) -> Iterator[tuple[str, Any]]:
    for key in knobs:
        value = _get(config, key)
        found = _largest(config, key, value, fits)
        if found is not None:
            yield key, found


def _largest(config: Config, key: str, value: Any, fits: Fits) -> Any:
    """The largest value below the present one with which the run fits and the config is valid; None if there is none."""
    top = max(value, default=0) if isinstance(value, list | tuple) else value
    if (
        type(top) is not int
        or top < 2
        or (isinstance(value, list | tuple) and not all(type(v) is int for v in value))
    ):
        return None

    def changed(size: int) -> Config:
        made: Config = _set(config, key, _scaled(value, size, top))
        return made

    low, high = 0, top
    while high - low > max(1, low >> 7):
        middle = (low + high) // 2
        if _tried(changed(middle), fits):
            low = middle
        else:
            high = middle
    # Round numbers, and multiples of eight where a layer wants them.
    for size in dict.fromkeys((_round(low), low - low % 8, low)):
        if size < 1:
            continue
        try:
            made = validate(changed(size).model_dump(mode="json"))
        except ConfigError:
            continue
        if _tried(made, fits):
            return _scaled(value, size, top)
    return None


def _tried(config: Config, fits: Fits) -> bool:
    try:
        return fits(config)
    except (ConfigError, ValueError, ZeroDivisionError, OverflowError):
        return False


def _scaled(value: Any, size: int, top: int) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(max(1, v * size // top) for v in value)
    return size


def _round(size: int) -> int:
    """Downwards, to two digits."""
    unit = int(10 ** max(0, len(str(size)) - 2))
    return size // unit * unit


def _get(config: Any, key: str) -> Any:
    found = config
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else getattr(found, part, None)
    return found


def _set(config: Any, key: str, value: Any) -> Any:
    first, _, rest = key.partition(".")
    new = _set(_get(config, first), rest, value) if rest else value
    return {**config, first: new} if isinstance(config, dict) else config.model_copy(update={first: new})


def _spelled(value: Any) -> str:
    return "[" + ",".join(map(str, value)) + "]" if isinstance(value, list | tuple) else str(value)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
