"""JSON in its one spelling: what `json.dumps(value, sort_keys=True, indent=1, allow_nan=False)` gives, in a third of the time.

With an indent the library leaves its C encoder and asks Python for every item; a manifest of a large replay has tens of
thousands, and each save spells several manifests.
"""

import json
from typing import Any

_escaped = json.encoder.encode_basestring_ascii
_scalar = json.JSONEncoder(allow_nan=False).encode


def spelled(value: Any, indent: str = "\n") -> str:
    """`indent` begins each line that closes the value. ValueError and TypeError as the library raises them."""
    kind, inner = type(value), indent + " "
    if kind is str:
        return _escaped(value)
    if kind is int:
        return int.__repr__(value)
    if kind is dict and value and all(type(key) is str for key in value):
        items = [f"{_escaped(key)}: {spelled(value[key], inner)}" for key in sorted(value)]
        return f"{{{inner}{f',{inner}'.join(items)}{indent}}}"
    if kind in (list, tuple) and value:
        return f"[{inner}{f',{inner}'.join([spelled(item, inner) for item in value])}{indent}]"
    if isinstance(value, dict | list | tuple):
        # Keys that are no strings, and other kinds of tables and lists, are seldom; the library knows them.
        return json.dumps(value, sort_keys=True, indent=1, allow_nan=False).replace("\n", indent)
    return _scalar(value)
