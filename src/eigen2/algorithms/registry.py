"""Algorithms by name and by preset: the built-in ones, and those that installed packages register."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from eigen2.algorithms.contract import Algorithm
from eigen2.errors import ConfigError

GROUP = "eigen2.algorithms"
BUILT_IN = {"erl": "eigen2.algorithms.erl:ERL", "pwm": "eigen2.algorithms.pwm:PWM"}


def names() -> list[str]:
    """Every registered algorithm; none of them is imported."""
    return sorted({*BUILT_IN, *(point.name for point in _plug_ins())})


@cache
def algorithm(name: str) -> Algorithm:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return _instance(name, getattr(import_module(module), attribute))
    points = [point for point in _plug_ins() if point.name == name]
    if not points:
        raise ConfigError(
            f"there is no algorithm called {name}; there are: {', '.join(names())}. "
            "A run of another one needs the package that brings it."
        )
    if len({point.value for point in points}) > 1:
        raise ConfigError(
            f"two packages bring an algorithm called {name}: {', '.join(map(_origin, points))}."
        )
    try:
        found = points[0].load()
    except Exception as error:
        raise ConfigError(
            f"the algorithm {name} of {_origin(points[0])} cannot be loaded: {error}"
        ) from error
    return _instance(name, found)


def preset(name: str) -> tuple[Algorithm, dict[str, Any]]:
    """The algorithm that has a preset of this name, and the preset's settings; LookupError if none has."""
    broken: list[ConfigError] = []
    for found in _likely_first(name):
        try:
            presets = algorithm(found).presets()
        except ConfigError as error:
            # Somebody else's plug-in that cannot be loaded must not stand in the way of the others.
            broken.append(error)
            continue
        if name in presets:
            return algorithm(found), dict(presets[name])
    if broken:
        raise broken[0]
    raise LookupError(name)


def preset_names() -> list[str]:
    return sorted({name for found in names() for name in algorithm(found).presets()})


def _likely_first(preset_name: str) -> Iterator[str]:
    """Algorithms in the order in which it is cheapest to ask them: importing one may be slow."""
    yield from sorted(names(), key=lambda name: (not preset_name.startswith(name), name not in BUILT_IN))


def _plug_ins() -> list[EntryPoint]:
    return [point for point in entry_points(group=GROUP) if point.name not in BUILT_IN]


def _origin(point: EntryPoint) -> str:
    return point.value if point.dist is None else f"{point.dist.name} ({point.value})"


def _instance(name: str, found: Any) -> Algorithm:
    made = found() if isinstance(found, type) else found
    if not isinstance(made, Algorithm) or made.name != name:
        raise ConfigError(
            f"the entry point {name} does not name an eigen2 Algorithm called {name}: {found!r}."
        )
    return made
