"""The files of a run that carry their own checksum: are they as they were written?

`Manifest.sealed` says which of them must carry one: a file that an earlier version wrote has none and proves nothing.
"""

import math
import os
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigen2.algorithms.contract import Trainer
from eigen2.errors import DamagedStateError
from eigen2.harness.run import Run
from eigen2.store.durable import write_atomically
from eigen2.store.layout import CONFIG_LIMIT, EVALUATIONS_LIMIT, FACTS_LIMIT
from eigen2.store.manifest import Manifest
from eigen2.store.plain_files import check_size, open_plain, read_plain
from eigen2.store.seals import json_holds, line_holds, sealed_tensors, tensors_hold, text_holds

if TYPE_CHECKING:
    from torch import Tensor

BEST_AGENT = "best_agent.safetensors"
EVALUATIONS = "evaluations.jsonl"
CONFIG, FACTS = "config.yaml", "run.json"
LIMITS = {CONFIG: CONFIG_LIMIT, FACTS: FACTS_LIMIT, EVALUATIONS: EVALUATIONS_LIMIT}
AGENT_LIMIT = 16 << 30


def _lines_hold(content: bytes) -> bool | None:
    """Of a log whose lines are sealed one by one; a last line without an end is still being written, unless it is
    whole but for its end."""
    complete, tail = content[: content.rfind(b"\n") + 1], content[content.rfind(b"\n") + 1 :]
    held = [line_holds(line) for line in complete.split(b"\n")[:-1]]
    held += [False] if tail and line_holds(tail[:-1]) else []
    return False if False in held else None if None in held else True


_HOLDS: Mapping[str, Callable[[bytes], bool | None]] = {
    CONFIG: text_holds,
    FACTS: json_holds,
    EVALUATIONS: _lines_hold,
}
SEALED = (*_HOLDS, BEST_AGENT)


def holds(path: Path) -> bool | None:
    """Whether a sealed file is as it was written; None when it is not there or carries no seal."""
    try:
        if path.name != BEST_AGENT:
            return content_holds(path.name, read_plain(path, LIMITS[path.name]))
        with open_plain(path) as file:
            check_size(path, os.fstat(file.fileno()).st_size, AGENT_LIMIT)
            return tensors_hold(file)
    except FileNotFoundError:
        return None
    except DamagedStateError:
        return False


def content_holds(name: str, content: bytes) -> bool | None:
    """The same of bytes in memory, which that file is to hold."""
    return tensors_hold(BytesIO(content)) if name == BEST_AGENT else _HOLDS[name](content)


def sealed_files(run: Run) -> set[str]:
    """Those that carry a checksum now, and will keep one: everything that this version writes does."""
    found = {name for name in SEALED if holds(run.path / name)}
    return found if run.log("evaluations").exists() else found | {EVALUATIONS}


def damaged_files(run: Run, manifest: Manifest) -> list[str]:
    """A sentence for each file that is not as it was written, or not there although the run has it."""
    return [sentence for name in SEALED if (sentence := damage(run, manifest, name))]


def damage(run: Run, manifest: Manifest | None, name: str) -> str | None:
    """What is wrong with one of them; None when it holds, or when nobody can say."""
    path = run.path / name
    must = manifest is not None and name in manifest.sealed
    if not path.exists():
        return f"{path} is missing" if must and name != EVALUATIONS else None
    state = holds(path)
    if state is False or (state is None and must):
        return f"{path} is damaged: it does not match its own checksum"
    return None


def write_best_agent(run: Run, weights: Mapping[str, Any]) -> None:
    write_atomically(run.path / BEST_AGENT, sealed_tensors(weights), run.check_place)


def restore_best_agent(run: Run, trainer: Trainer, manifest: Manifest) -> None:
    """The best weights are in the state: a file of them that is damaged or gone is written again."""
    if math.isfinite(trainer.best_score) and damage(run, manifest, BEST_AGENT):
        write_best_agent(run, copied(trainer.best_weights()))


def copied(weights: Mapping[str, "Tensor"]) -> dict[str, "Tensor"]:
    """Each tensor by itself and at rest: training continues while they are written."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in weights.items()}
