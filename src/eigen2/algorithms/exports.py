"""The two files of an exported champion that every algorithm writes alike, and how they are read without running code.

champion.safetensors   its weights
champion.json          what they are: algorithm, settings, action bounds, and the hash of the weights
"""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from eigen2.algorithms.contract import CHAMPION
from eigen2.config import Config, validate
from eigen2.errors import ConfigError, DamagedStateError
from eigen2.section import own_file_keys

if TYPE_CHECKING:
    from torch.nn import Module

WEIGHTS = "champion.safetensors"
GRAPH = "champion.pt2"
FORMAT = 1


def write_champion(
    directory: Path, config: Config, weights: Mapping[str, Tensor], facts: Mapping[str, Any]
) -> None:
    """`facts` are the algorithm's own, beside what all have."""
    content = save({name: value.detach().cpu().contiguous() for name, value in weights.items()})
    (directory / WEIGHTS).write_bytes(content)
    said = {
        "format": FORMAT,
        "algorithm": config.alg.kind,
        "version": version("eigen2"),
        "weights": hashlib.sha256(content).hexdigest(),
        "config": portable(config),
        **facts,
    }
    (directory / CHAMPION).write_text(json.dumps(said, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def read_champion(directory: Path) -> tuple[Config, dict[str, Tensor], dict[str, Any]]:
    """Config, weights and all facts; every byte of the weights is proven."""
    facts = read_facts(directory)
    try:
        content = (directory / WEIGHTS).read_bytes()
        if hashlib.sha256(content).hexdigest() != facts["weights"]:
            raise DamagedStateError(
                f"{directory / WEIGHTS} is not the file that was exported: its hash differs"
            )
        return validate(facts["config"], stored=True), load(content), facts
    except ConfigError as error:
        raise DamagedStateError(f"{directory / CHAMPION} cannot be read: {error}") from error
    except (OSError, SafetensorError, KeyError, TypeError) as error:
        raise DamagedStateError(f"{directory} does not hold a whole champion ({error})") from error


def read_facts(directory: Path) -> dict[str, Any]:
    """What champion.json says."""
    path = directory / CHAMPION
    try:
        facts = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DamagedStateError(f"{path} cannot be read ({error}); export the run again") from error
    if facts.get("format") != FORMAT:
        raise DamagedStateError(
            f"{path} has format {facts.get('format')}, and this version ({version('eigen2')}) reads {FORMAT}"
        )
    return facts


def portable(config: Config) -> dict[str, Any]:
    """The config without places on this machine: of the user's own file the name alone."""
    values = config.model_dump(mode="json")
    for section in ("run", "cloud"):
        values.pop(section)
    for key in own_file_keys(config):
        section, _, name = key.rpartition(".")
        values[section][name] = Path(values[section][name]).name
    return values


def write_graph(directory: Path, module: "Module", example: tuple[Tensor, ...], batch: bool) -> None:
    """The policy as a graph that torch alone can run: `torch.export.load(path).module()(...)`. With `batch` the first axis
    of the only input may have any length."""
    shapes = ({0: torch.export.Dim("batch")},) if batch else None
    with torch.no_grad():
        torch.export.save(
            torch.export.export(module.eval(), example, dynamic_shapes=shapes), directory / GRAPH
        )
