"""What the smaller commands do, one function each; the command line only passes words in and prints what comes out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eigen2.errors import ConfigError
from eigen2.harness.directory import find_run
from eigen2.store.checkpoints import Checkpoint


def config_facts(overrides: Sequence[str], log_dir: Path | None = None) -> dict[str, Any]:
    """The resolved config, and what differs from its presets."""
    from eigen2.config import differences, preset_config, resolve

    config = resolve(overrides, log_dir)
    changed = differences(preset_config(config.presets), config)
    return {
        "config": config.model_dump(mode="json"),
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


def replay_facts(run: str, root: Path) -> dict[str, int]:
    from eigen2.replay.snapshot import manifest_info

    return manifest_info(_with_replay(run, root).manifest.replay or {})


def verify_replay(run: str, root: Path) -> dict[str, int]:
    from eigen2.replay.snapshot import verify_segments

    checkpoint = _with_replay(run, root)
    return {"segments": verify_segments(checkpoint.manifest.replay or {}, checkpoint.objects.read)}


def _with_replay(run: str, root: Path) -> Checkpoint:
    checkpoint = find_run(run, root).checkpoints.newest_good().checkpoint
    if checkpoint is None or checkpoint.manifest.replay is None:
        raise ConfigError(f"{run} has no replay on disk yet.")
    return checkpoint
