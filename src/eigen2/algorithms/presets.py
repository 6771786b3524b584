"""Presets as YAML files in a package: `<name>.yaml`."""

import re
from importlib import resources
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """YAML 1.2 in one point: `on` is a word, only true and false are booleans."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))


def read_presets(package: str) -> dict[str, dict[str, Any]]:
    files = sorted(resources.files(package).iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".yaml"): dict(yaml.load(file.read_text(encoding="utf-8"), _Loader) or {})
        for file in files
        if file.name.endswith(".yaml")
    }
