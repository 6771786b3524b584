"""YAML as eigen2 writes it: plain values, and nothing that a few lines can blow up.

A config may come from a stranger's bucket. A handful of aliases stand for more values than any memory holds, and
brackets within brackets cost the reader the square of their depth; eigen2 writes neither.
"""

from typing import Any

import yaml

MOST_BRACKETS = 1000


class PlainLoader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "it holds an alias")
        return super().compose_node(parent, index)


def load_plain(text: str) -> Any:
    """The value in `text`; ValueError when it is no plain YAML."""
    if text.count("[") + text.count("{") > MOST_BRACKETS:
        raise ValueError(f"it holds more than {MOST_BRACKETS} brackets")
    try:
        return yaml.load(text, PlainLoader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
