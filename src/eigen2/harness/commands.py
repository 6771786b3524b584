"""What the smaller commands do, one function each; the command line only passes words in and prints what comes out."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from eigen2.errors import ConfigError, DamagedStateError
from eigen2.harness.directory import find_run
from eigen2.store.checkpoints import NONSENSE, Checkpoint, tell_refused

Result = TypeVar("Result")


def config_facts(overrides: Sequence[str], log_dir: Path | None = None) -> dict[str, Any]:
    """The settings as they resolve, and what differs from their presets."""
    from eigen2.config import differences, preset_config, resolve
    from eigen2.section import settings_of

    config = resolve(overrides, log_dir)
    changed = differences(preset_config(config.presets), config)
    return {
        "config": settings_of(config),
        "presets": config.presets,
        "differences": {key: {"preset": before, "now": after} for key, (before, after) in changed.items()},
    }


def config_text(facts: dict[str, Any]) -> str:
    """YAML, with the differences as comments."""
    import yaml

    names = " ".join(f"{group}={name}" for group, name in facts["presets"].items())
    changed = facts["differences"]
    lines = [f"# differs from the preset {names}:" if changed else f"# as in the preset {names}"]
    lines += [f"#   {key}: {values['preset']} -> {values['now']}" for key, values in changed.items()]
    return yaml.safe_dump(facts["config"], sort_keys=False) + "\n".join(lines)


def replay_facts(run: str, root: Path, say: Callable[[str], None]) -> dict[str, int]:
    from eigen2.replay.snapshot import manifest_info

    return _of_replay(run, root, say, lambda manifest, read: manifest_info(manifest))


def verify_replay(run: str, root: Path, say: Callable[[str], None]) -> dict[str, int]:
    from eigen2.replay.snapshot import verify_segments

    return {"segments": _of_replay(run, root, say, verify_segments)}


def memory_facts(run: str, root: Path) -> dict[str, Any]:
    """Growth, what grew, leak verdict; of a run that trains, too."""
    from eigen2.memory.verdict import assess

    metadata = find_run(run, root).metadata()
    compared = {
        name: metadata[name] for name in ("forecast", "actual") if isinstance(metadata.get(name), dict)
    }
    return _of_memory(run, root, lambda records: assess(records).to_json()) | compared


def memory_text(run: str, root: Path) -> str:
    """The last snapshot, the trend, and the verdict."""
    from eigen2.memory.pictures import account

    return "\n".join([*_of_memory(run, root, account), *_compared(find_run(run, root).metadata())])


def _of_memory(run: str, root: Path, look: Callable[[list[dict[str, Any]]], Result]) -> Result:
    """What `look` makes of the records of a run's memory; records of something else are damage."""
    from eigen2.harness.journal import read_log

    log = find_run(run, root).log("memory")
    records = read_log(log)
    try:
        return look(records)
    except NONSENSE as error:
        raise DamagedStateError(
            f"{log} is damaged: its records are not those of a run's memory ({type(error).__name__}: {str(error)[:200]})."
        ) from error


def _compared(metadata: Mapping[str, Any]) -> list[str]:
    """What was forecast, beside what a run that is done took."""
    from eigen2.cloud.words import size_words

    forecast, actual = metadata.get("forecast"), metadata.get("actual")
    if not isinstance(forecast, dict) or not isinstance(actual, dict):
        return []
    named = {"memory": "ram_bytes", "disk": "disk_bytes", "upload": "upload_bytes"}
    parts = [
        f"{name} {size_words(forecast[key])}, took {size_words(actual[key])} ({forecast[key] / actual[key]:.2f})"
        for name, key in named.items()
        if isinstance(forecast.get(key), int) and isinstance(actual.get(key), int) and actual[key] > 0
    ]
    return [f"forecast at the start: {'; '.join(parts)}"] if parts else []


def _of_replay(
    run: str, root: Path, say: Callable[[str], None],
    look: Callable[[Mapping[str, Any], Callable[[str], bytes]], Result],
) -> Result:  # fmt: skip
    """What `look` makes of the newest replay, given its manifest and how to read its objects."""

    def read(checkpoint: Checkpoint) -> Result | None:
        replay = checkpoint.manifest.replay
        return None if replay is None else look(replay, checkpoint.objects.read)

    recovery, found = find_run(run, root).checkpoints.read_newest(read)
    tell_refused(recovery, say)
    if found is None:
        raise ConfigError(f"{run} has no replay on disk.")
    return found
