"""What the commands do, one function each; the command line only passes words in and prints what comes out."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from eigen2.config import Config, differences, load_config, preset_config
from eigen2.envs.config import TradingConfig
from eigen2.errors import ConfigError, DataError
from eigen2.market.catalogue import canonical_name, samples
from eigen2.market.check import check_file
from eigen2.market.findings import errors
from eigen2.replay.snapshot import manifest_info, verify_blobs
from eigen2.runs.directory import RunDirectory, create_run, find_run
from eigen2.runs.judging import Look, evaluate_policy, evaluate_run
from eigen2.runs.loop import check_resumable, train
from eigen2.runs.saving import needed_bytes
from eigen2.runs.sources import begin, with_located_sources
from eigen2.store.checkpoints import Checkpoint, Checkpoints
from eigen2.store.disk import ensure_room


def start_run(overrides: Sequence[str], console: Console, log_dir: Path | None = None) -> dict[str, Any]:
    config = with_located_sources(with_absolute_paths(resolve(overrides, log_dir)))
    prepare(config)
    run = create_run(config)
    _say(console, f"run {run.path}")
    return _train_and_look(run, config, console)


def resume_run(
    name: str | None, overrides: Sequence[str], console: Console, log_dir: Path | None = None
) -> dict[str, Any]:
    root = resolve([o for o in overrides if o.startswith("run.root=")], log_dir).run.root
    run = find_run(name, root.expanduser())
    stored = run.read_config()
    config = with_absolute_paths(resolve(overrides, log_dir, base=stored))
    check_resumable(stored, config)
    _say(console, f"run {run.path}, resumed")
    return _train_and_look(run, config, console)


def resolve(overrides: Sequence[str], log_dir: Path | None, base: Config | None = None) -> Config:
    """The config; `log_dir` is run.root as a plain path, in which no character has a meaning of its own."""
    config = load_config(overrides, base)
    if log_dir is None:
        return config
    if any(override.startswith("run.root=") for override in overrides):
        raise ConfigError("--log-dir and run.root= are two spellings of one thing; give one of them.")
    return config.model_copy(update={"run": config.run.model_copy(update={"root": log_dir})})


def prepare(config: Config) -> None:
    """Everything that can be refused is refused before a run directory exists: data, sizes, room on the disk."""
    from eigen2.runs.build import build

    with build(config.model_copy(update={"cluster": "inline"})) as built:
        own = needed_bytes(built.trainer)
        begin(built)
        ensure_room(config.run.root, max(own, needed_bytes(built.trainer)))


def with_absolute_paths(config: Config) -> Config:
    """Runs and files of prices by absolute paths, so that the run can go on from any working directory."""
    run = config.run.model_copy(update={"root": Path(os.path.abspath(config.run.root.expanduser()))})
    config = config.model_copy(update={"run": run})
    env = config.env
    if not isinstance(env, TradingConfig) or canonical_name(env.data) is not None:
        return config
    file = Path(env.data).expanduser()
    if not file.exists():
        return config
    return config.model_copy(update={"env": env.model_copy(update={"data": os.path.abspath(file)})})


def _train_and_look(run: RunDirectory, config: Config, console: Console) -> dict[str, Any]:
    train(run, config, console)
    look = evaluate_run(run, "holdout")
    console.print(look.shown, highlight=False)
    _say(console, f"run {run.path}")
    return {"run": str(run.path), "evaluation": look.facts}


def config_facts(overrides: Sequence[str], log_dir: Path | None = None) -> dict[str, Any]:
    """The resolved config, and what differs from its presets."""
    config = resolve(overrides, log_dir)
    changed = differences(preset_config(config.presets), config)
    return {
        "config": config.model_dump(mode="json"),
        "presets": config.presets,
        "differences": {key: {"preset": before, "now": after} for key, (before, after) in changed.items()},
    }


def config_text(facts: dict[str, Any]) -> str:
    """YAML, with the differences as comments."""
    names = " ".join(f"{group}={name}" for group, name in facts["presets"].items())
    changed = facts["differences"]
    lines = [f"# differs from the preset {names}:" if changed else f"# as in the preset {names}"]
    lines += [f"#   {key}: {values['preset']} -> {values['now']}" for key, values in changed.items()]
    return yaml.safe_dump(facts["config"], sort_keys=False) + "\n".join(lines)


def look_at_run(arguments: Sequence[str], split: str, root: Path) -> Look:
    if len(arguments) > 1 or any("=" in argument for argument in arguments):
        raise ConfigError(
            "Name one run, e.g. `eigen2 evaluate runs/erl_sp20_seed7`; overrides go with --policy."
        )
    return evaluate_run(find_run(arguments[0] if arguments else None, root), split)


def look_at_policy(policy: str, split: str, overrides: Sequence[str]) -> Look:
    return evaluate_policy(load_config(overrides), policy, split)


def check_prices(
    file: Path, overrides: Sequence[str], console: Console, emit: Callable[[dict[str, Any]], None] | None
) -> None:
    config = load_config([f"env.data={file}", *overrides]) if overrides else load_config()
    if not isinstance(config.env, TradingConfig):
        raise ConfigError("`data check` reads prices; use it with env=trading.")
    findings = check_file(file, config.env)
    bad = errors(findings)
    if emit is not None:
        emit({"file": str(file), "ok": not bad, "findings": [finding.to_json() for finding in findings]})
    else:
        for finding in findings:
            _say(console, f"{finding.severity}: {finding.sentence()}")
    if bad:
        raise DataError(
            f"{file} cannot be used: {len(bad)} problem{'s' if len(bad) > 1 else ''}; {bad[0].sentence()}"
        )
    if emit is None:
        _say(console, f"{file} can be used.")


def sample_facts() -> list[dict[str, Any]]:
    return [
        {
            "name": s.name, "kind": s.kind, "summary": s.summary, "symbols": s.symbols, "days": s.days,
            "first": s.first, "last": s.last, "licence": s.licence, "source": s.source, "caveats": list(s.caveats),
        }
        for s in samples()
    ]  # fmt: skip


def sample_table() -> Table:
    table = Table(
        "name", "kind", "symbols", "days", "from", "to", "what, and what to beware of", show_lines=True
    )
    for s in sample_facts():
        text = "\n".join([s["summary"], *(f"- {caveat}" for caveat in s["caveats"])])
        cells = ["" if s[key] is None else str(s[key]) for key in ("symbols", "days", "first", "last")]
        table.add_row(s["name"], s["kind"], *cells, text)
    return table


def replay_facts(run: str, root: Path) -> dict[str, int]:
    return manifest_info(_with_replay(run, root).manifest.replay or {})


def verify_replay(run: str, root: Path) -> dict[str, int]:
    checkpoint = _with_replay(run, root)
    return {"segments": verify_blobs(checkpoint.manifest.replay or {}, checkpoint.replay_blob)}


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _with_replay(run: str, root: Path) -> Checkpoint:
    checkpoint = Checkpoints(find_run(run, root).path).newest_good().checkpoint
    if checkpoint is None or checkpoint.manifest.replay is None:
        raise ConfigError(f"{run} has no replay on disk yet.")
    return checkpoint
