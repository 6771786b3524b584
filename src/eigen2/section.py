"""The base of every config section: frozen, typed, closed to unknown keys, and marked key by key.

By default a key *computes*: it decides what a run computes and is part of its identity, so a resume cannot change it.
The declaration says what is different about a key:

* `json_schema_extra=OPERATES`: it says where, how often or how verbose, and may change at every start.
* `json_schema_extra=CONSTANT`: it is not a setting; nobody can override it and no page lists it. Runs store it and keep
  their own value in a version that has another.
* `json_schema_extra=was("old")`: it was renamed; stored configs may use the old name.
* `json_schema_extra=before(value)`: runs older than the key did what `value` means, which is not the default; their
  configs are read with it.
* annotated `OwnFile`: it may name a file of the user's. The run's identity holds a fingerprint of the content, so the
  path does not count.

Removed keys are listed in their section. `gone`: with the values that mean what is done now; a stored config can be read
if it has one of them. `retired`: keys of a mechanism that a run can continue without, with the values under which it did
nothing; a stored config can be read with any value, and `retired_keys` says what the run continues without.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator
from pydantic.fields import FieldInfo

OPERATES: dict[str, Any] = {"operates": True}
CONSTANT: dict[str, Any] = {"constant": True}


def was(*names: str) -> dict[str, Any]:
    return {"was": list(names)}


def before(value: Any) -> dict[str, Any]:
    return {"before": [value]}


ANY_VALUE: tuple[Any, ...] = ()
"""For a key in `gone` that never decided what is computed now."""
STORED: dict[str, Any] = {"stored": True}
"""The validation context of a config that a run stored, perhaps of an earlier version."""


@dataclass(frozen=True)
class OwnFile:
    """Annotates a key; `built_in` says of a value whether it names something that is no file."""

    built_in: Callable[[str], bool]

    def counted(self, value: str) -> str:
        """What the key computes with: itself, or the same words for every file."""
        return value if self.built_in(value) else "a file"


@dataclass(frozen=True)
class MayImport:
    """Annotates a key; `imports` says of a value whether it names Python code that is to be imported.

    Such a value counts only when it is typed: a stored config, which may be a stranger's, imports nothing by itself."""

    imports: Callable[[str], bool]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    gone: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    retired: ClassVar[Mapping[str, tuple[Any, ...]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _present_names(cls, values: Any, info: ValidationInfo) -> Any:
        if not isinstance(values, Mapping):
            return values
        if info.context == STORED:
            earlier = {name: _mark(field, "before") for name, field in cls.model_fields.items()}
            values = {name: value[0] for name, value in earlier.items() if value} | dict(values)
            values = {name: value for name, value in values.items() if not cls._is_gone(name, value)}
        former = {old: name for name, field in cls.model_fields.items() for old in _mark(field, "was")}
        return {
            former.get(key, key) if former.get(key) not in values else key: v for key, v in values.items()
        }

    @classmethod
    def _is_gone(cls, name: str, value: Any) -> bool:
        if name in cls.model_fields:
            return False
        if name not in cls.gone:
            return name in cls.retired
        same = cls.gone[name]
        if same != ANY_VALUE and value not in same:
            raise ValueError(f"{name}={value} is no longer there")
        return True

    @classmethod
    def former_names(cls) -> dict[str, str]:
        """Dotted former name of every renamed key -> its present name."""
        return {old: new for new, field, _ in _walk(cls) for old in _former(new, field)}


def computing(section: Section) -> dict[str, Any]:
    """The keys that compute, as nested JSON values."""
    kept: dict[str, Any] = {}
    for name, field in type(section).model_fields.items():
        if _mark(field, "operates"):
            continue
        value = getattr(section, name)
        if isinstance(value, Section):
            kept[name] = computing(value)
        elif own := _own_file(field):
            kept[name] = own.counted(value)
        else:
            kept[name] = section.model_dump(mode="json")[name]
    return kept


def settings_of(section: Section) -> dict[str, Any]:
    """The keys that can be chosen, as nested JSON values."""
    kept: dict[str, Any] = {}
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if not constant(field):
            kept[name] = (
                settings_of(value) if isinstance(value, Section) else section.model_dump(mode="json")[name]
            )
    return kept


def constants(section: Section, prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value, of the keys that nobody can choose."""
    found: dict[str, Any] = {}
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, Section):
            found |= constants(value, f"{prefix}{name}.")
        elif constant(field):
            found[f"{prefix}{name}"] = value
    return found


def retired_keys(cls: type[Section], values: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value, of the mechanisms in a stored section that are no longer there and did something."""
    if not isinstance(values, Mapping):
        return {}
    found = {
        f"{prefix}{name}": values[name]
        for name, idle in cls.retired.items()
        if name in values and values[name] not in idle
    }
    for name, field in cls.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            found |= retired_keys(field.annotation, values.get(name), f"{prefix}{name}.")
    return found


def own_file_keys(section: Section, prefix: str = "") -> set[str]:
    """Dotted names of the keys that may name a file of the user's."""
    found: set[str] = set()
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, Section):
            found |= own_file_keys(value, f"{prefix}{name}.")
        elif _own_file(field):
            found.add(f"{prefix}{name}")
    return found


def importing(section: Section, prefix: str = "") -> dict[str, str]:
    """Dotted key -> value, of the keys whose values name code to be imported."""
    found: dict[str, str] = {}
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        mark = next((mark for mark in field.metadata if isinstance(mark, MayImport)), None)
        if mark is not None and isinstance(value, str) and mark.imports(value):
            found[f"{prefix}{name}"] = value
        inner = value if isinstance(value, tuple) else (value,)
        for part in inner:
            if isinstance(part, Section):
                found |= importing(part, f"{prefix}{name}.")
    return found


def operates(field: FieldInfo) -> bool:
    return bool(_mark(field, "operates"))


def constant(field: FieldInfo) -> bool:
    return bool(_mark(field, "constant"))


def _walk(cls: type[Section], prefix: str = "") -> Iterator[tuple[str, FieldInfo, type[Section]]]:
    for name, field in cls.model_fields.items():
        yield f"{prefix}{name}", field, cls
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from _walk(kind, f"{prefix}{name}.")


def _former(name: str, field: FieldInfo) -> list[str]:
    head, dot, _ = name.rpartition(".")
    return [f"{head}{dot}{old}" for old in _mark(field, "was")]


def _own_file(field: FieldInfo) -> OwnFile | None:
    return next((mark for mark in field.metadata if isinstance(mark, OwnFile)), None)


def _mark(field: FieldInfo, name: str) -> Any:
    extra = field.json_schema_extra
    return extra.get(name, ()) if isinstance(extra, dict) else ()


RULES = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "string_type": "must be text",
}
"""Of pydantic's kinds of errors, what a value must be."""


def value_rule(error: Any) -> str:
    """What pydantic found wrong with a value, in a user's words."""
    kind, limits = error["type"], error.get("ctx", {})
    if rule := RULES.get(kind):
        return rule.format(**limits)
    if kind == "literal_error":
        names = re.findall(r"'([^']*)'", limits["expected"])
        near = difflib.get_close_matches(str(error["input"]), names, n=1, cutoff=0.75)
        return f"must be {limits['expected']}" + (f", did you mean `{near[0]}`?" if near else "")
    if kind == "tuple_type":
        return f"must be a list, e.g. [{error['input']}]"
    return str(error["msg"].removeprefix("Value error, "))
