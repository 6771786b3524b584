"""The base of every config section: frozen, typed, closed to unknown keys, and marked key by key.

A key *computes*: it decides what a run computes and is part of its identity, so a resume cannot change it. A key
declared with `json_schema_extra=OPERATES` only says where, how often or how loud, and may change at every start. A key
that was renamed names its former name, `json_schema_extra=was("old")`, so that stored configs still read.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.fields import FieldInfo

OPERATES: dict[str, Any] = {"operates": True}


def was(*names: str) -> dict[str, Any]:
    return {"was": list(names)}


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _present_names(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        former = {old: name for name, field in cls.model_fields.items() for old in _mark(field, "was")}
        return {
            former.get(key, key) if former.get(key) not in values else key: v for key, v in values.items()
        }

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
        kept[name] = computing(value) if isinstance(value, Section) else section.model_dump(mode="json")[name]
    return kept


def _walk(cls: type[Section], prefix: str = "") -> Iterator[tuple[str, FieldInfo, type[Section]]]:
    for name, field in cls.model_fields.items():
        yield f"{prefix}{name}", field, cls
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from _walk(kind, f"{prefix}{name}.")


def _former(name: str, field: FieldInfo) -> list[str]:
    head, dot, _ = name.rpartition(".")
    return [f"{head}{dot}{old}" for old in _mark(field, "was")]


def _mark(field: FieldInfo, name: str) -> Any:
    extra = field.json_schema_extra
    return extra.get(name, ()) if isinstance(extra, dict) else ()
