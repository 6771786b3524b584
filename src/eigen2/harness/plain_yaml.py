"""YAML as eigen2 writes it: plain values, and nothing that a few lines can blow up.

A config may come from a stranger's bucket. A handful of aliases stand for more values than any memory holds, and
brackets within brackets cost the reader the square of their depth; eigen2 writes neither. libyaml reads ten times
faster than Python, on the stack of C: how deep a text goes is known before it is asked for values.
"""

from typing import Any

import yaml

MOST_BRACKETS = 1000
DEEPEST = 100
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENING = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_CLOSING = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


def load_plain(text: str) -> Any:
    """The value in `text`; ValueError when it is no plain YAML."""
    if text.count("[") + text.count("{") > MOST_BRACKETS:
        raise ValueError(f"it holds more than {MOST_BRACKETS} brackets")
    try:
        _check_shape(text)
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _check_shape(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("it holds an alias")
        depth += isinstance(event, _OPENING) - isinstance(event, _CLOSING)
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")
