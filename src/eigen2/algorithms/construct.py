"""Somebody else's class, made from settings in a config."""

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from eigen2.errors import ConfigError
from eigen2.section import value_rule

Made = TypeVar("Made")


def construct(
    kind: Callable[..., Made], settings: Mapping[str, Any], ours: Mapping[str, Any], key: str
) -> Made:
    """`kind(**settings, **ours)`; `key` is where the settings stand in the config.

    What `ours` names cannot be set, and is left out where `kind` does not know it. Lists become tuples, which YAML does
    not have. A wrong setting is a ConfigError.
    """
    name = kind.__name__
    parameters = inspect.signature(kind, eval_str=True).parameters
    known = list(parameters)
    free = [parameter for parameter in known if parameter not in ours]
    for setting in settings:
        if setting in ours:
            raise ConfigError(
                f"{key}.{setting} cannot be set: Eigen2 decides it from the rest of the config."
            )
        if setting not in free:
            near = get_close_matches(setting, free, 1, 0.0)[0]
            raise ConfigError(f"{name} has no setting {setting}; did you mean `{key}.{near}`?")
    chosen = {setting: tuple(v) if isinstance(v, list) else v for setting, v in settings.items()}
    for setting, value in chosen.items():
        _check_type(value, parameters[setting].annotation, f"{key}.{setting}")
    try:
        return kind(**chosen, **{parameter: ours[parameter] for parameter in known if parameter in ours})
    except (AssertionError, TypeError, ValueError) as error:
        raise ConfigError(f"{name} refuses `{key}={dict(settings)}`: {error}") from error


def _check_type(value: Any, annotation: Any, key: str) -> None:
    """Refuse what an argument's annotation does not allow."""
    try:
        TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True)).validate_python(value)
    except ValidationError as error:
        raise ConfigError(f"`{key}`: {value_rule(error.errors()[0])} (it is {value!r})") from error
