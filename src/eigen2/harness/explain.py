"""What a setting means: from its declaration alone, so nothing is written twice.

The meaning is the text under a key, its range is that of its field, and a preset's value is what the preset resolves to.
"""

import ast
import difflib
import inspect
import textwrap
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from eigen2.algorithms import registry
from eigen2.config import Config, config_choices, preset_config
from eigen2.errors import ConfigError
from eigen2.section import Section, constant, constants, operates

PLAIN = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path"}
BOUNDS = {"ge": "at least {}", "gt": "more than {}", "le": "at most {}", "lt": "less than {}"}


@dataclass(frozen=True)
class Setting:
    key: str
    meaning: str
    type: str
    range: str
    default: str
    computes: bool
    """Whether a resume must keep it."""
    of: str = ""
    """The kind of environment, or the algorithm, that has it; empty for all runs."""
    preset: str | None = None
    """Its value in the chosen presets; None where they do not have it."""
    presets: str = ""

    def lines(self) -> list[str]:
        limits = f", {self.range}" if self.range else ""
        whose = f" ({self.of})" if self.of else ""
        fixed = "fixed for a run" if self.computes else "may change at a resume"
        chosen = [] if self.preset is None else [f"    in {self.presets}: {self.preset}"]
        head = f"{self.key}{whose}: {self.type}{limits}; default {self.default}; {fixed}"
        return [head, *(f"    {line}" for line in textwrap.wrap(self.meaning, 100)), *chosen]


def explain(words: Sequence[str]) -> list[Setting]:
    """Settings by key, by section or by a word in their meaning; `alg=NAME env=NAME` say whose values are shown."""
    asked = [word for word in words if "=" not in word]
    chosen = preset_config(config_choices([word for word in words if "=" in word]))
    values = dict(_leaves(chosen.model_dump(mode="json")))
    kinds = ("", chosen.alg.kind, chosen.env.kind)
    names = " ".join(f"{group}={name}" for group, name in chosen.presets.items())
    found = [
        replace(one, preset=_spelled(values.get(one.key)), presets=names) if one.of in kinds else one
        for one in all_settings()
    ]
    fixed = constants(chosen, "")
    for word in asked:
        if word in fixed:
            raise ConfigError(f"`{word}` is no setting: with {names} it is {fixed[word]}.")
    if not asked:
        return found
    return [one for word in asked for one in _matching(word, found)]


def page() -> str:
    """docs/settings.md."""
    lines = [
        "# Settings", "",
        "Every key, from its declaration: `eigen2 explain KEY`, `eigen2 explain SECTION` and `eigen2 explain WORD` print the same, "
        "with the values of the chosen presets. A key that is fixed for a run cannot be changed at a resume.", "",
    ]  # fmt: skip
    title = None
    for one in all_settings(ours=True):
        section = one.key.split(".")[0] if "." in one.key else "all runs"
        heading = f"{section} of {one.of}" if one.of else section
        if heading != title:
            lines += ["" if title else None, f"## {heading}", "", "| key | type | default | fixed | meaning |", "|---|---|---|---|---|"]  # type: ignore[list-item] # fmt: skip
            title = heading
        kind = f"{one.type}, {one.range}" if one.range else one.type
        fixed = "yes" if one.computes else ""
        cells = (f"`{one.key}`", kind, f"`{one.default}`", fixed, one.meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(line for line in lines if line is not None) + "\n"


def all_settings(ours: bool = False) -> list[Setting]:
    """Of every section, kind of environment and algorithm; `ours` leaves plug-ins of others out."""
    return list(_all(ours))


def _all(ours: bool) -> Iterator[Setting]:
    for name, field in Config.model_fields.items():
        kind = _bare(field.annotation)
        if name == "env":
            for section in _members(field.annotation):
                yield from _settings(section, "env.", str(section.model_fields["kind"].default))
        elif name == "alg":
            for algorithm in registry.names():
                section = registry.algorithm(algorithm).config
                if not ours or section.__module__.startswith("eigen2."):
                    yield from _settings(section, "alg.", algorithm)
        elif isinstance(kind, type) and issubclass(kind, Section):
            yield from _settings(kind, f"{name}.", "")
        elif name != "presets":
            yield _setting(Config, name, field, "", "")


def _settings(section: type[Section], prefix: str, of: str) -> Iterator[Setting]:
    for name, field in section.model_fields.items():
        kind = _bare(field.annotation)
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from _settings(kind, f"{prefix}{name}.", of)
        elif name != "kind" and not constant(field):
            yield _setting(section, name, field, prefix, of)


def _setting(section: type[Section], name: str, field: FieldInfo, prefix: str, of: str) -> Setting:
    default = field.get_default(call_default_factory=True)
    return Setting(
        key=prefix + name,
        meaning=_meanings(section).get(name, ""),
        type=_type_words(field.annotation),
        range=" and ".join(_bounds(field)),
        default="none" if default is PydanticUndefined else _spelled(default),
        computes=not operates(field),
        of=of,
    )


@cache
def _meanings(section: type[Section]) -> dict[str, str]:
    """The text under each key, of this class and those it is made from."""
    found: dict[str, str] = {}
    for cls in reversed(section.__mro__):
        if not (isinstance(cls, type) and issubclass(cls, Section) and cls is not Section):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        assert isinstance(body, ast.ClassDef)
        for statement, after in zip(body.body, body.body[1:], strict=False):
            if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
                continue
            text = after.value if isinstance(after, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found[statement.target.id] = " ".join(text.value.split())
    return found


def _matching(word: str, settings: Sequence[Setting]) -> list[Setting]:
    exact = [one for one in settings if one.key == word or one.key.startswith(f"{word}.")]
    if exact:
        return exact
    text = word.lower()
    said = [one for one in settings if text in one.key.lower() or text in one.meaning.lower()]
    if said:
        return said
    keys = [one.key for one in settings]
    near = difflib.get_close_matches(word, keys, n=1) or difflib.get_close_matches(
        word, [key.rpartition(".")[2] for key in keys], n=1
    )
    hint = f"; did you mean {near[0]}?" if near else "; `eigen2 explain` lists them all."
    raise ConfigError(f"No setting is called {word} or mentions it{hint}")


def _bare(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _members(kind: Any) -> Iterator[type[Section]]:
    for member in get_args(_bare(kind)):
        if isinstance(member, type) and issubclass(member, Section):
            yield member


def _type_words(kind: Any) -> str:
    kind = _bare(kind)
    origin, members = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(map(str, members))
    if origin in (Union, types.UnionType):
        named = [_type_words(member) for member in members if member is not type(None)]
        return " or ".join([*named, *(["null"] if type(None) in members else [])])
    if origin in (tuple, list):
        return f"list of {_type_words(members[0])}"
    if origin is dict or kind is dict:
        return "table"
    return PLAIN.get(kind, getattr(kind, "__name__", str(kind)))


def _bounds(field: FieldInfo) -> Iterator[str]:
    for mark in field.metadata:
        for name, words in BOUNDS.items():
            if hasattr(mark, name):
                bound = getattr(mark, name)
                yield words.format("2^63" if bound == 2**63 else f"{bound:g}")


def _spelled(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_spelled, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_spelled(item)}" for key, item in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        yield f"{prefix}{key}", value
