"""What the commands do, one function each; the command line only passes words in and prints what comes out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from eigen2.config import Config, differences, load_config, preset_config
from eigen2.envs.config import TradingConfig
from eigen2.errors import ConfigError, DataError
from eigen2.market.catalogue import samples
from eigen2.market.check import check_file
from eigen2.market.findings import errors
from eigen2.replay.snapshot import manifest_info, verify_blobs
from eigen2.runs.directory import RunDirectory, create_run, find_run
from eigen2.runs.judging import Look, evaluate_policy, evaluate_run
from eigen2.runs.loop import check_resumable, train
from eigen2.store.checkpoints import Checkpoint, Checkpoints


def start_run(overrides: Sequence[str], console: Console) -> dict[str, Any]:
    config = load_config(overrides)
    prepare(config)
    run = create_run(config)
    run.write_config(config)
    console.print(f"run {run.path}", highlight=False, soft_wrap=True)
    return _train_and_look(run, config, console)


def resume_run(name: str | None, overrides: Sequence[str], console: Console) -> dict[str, Any]:
    root = load_config([o for o in overrides if o.startswith("run.root=")]).run.root
    run = find_run(name, root)
    stored = run.read_config()
    config = load_config(overrides, base=stored)
    check_resumable(stored, config)
    console.print(f"run {run.path}, resumed", highlight=False, soft_wrap=True)
    return _train_and_look(run, config, console)


def prepare(config: Config) -> None:
    """Everything that can be refused is refused before a run directory exists."""
    from eigen2.runs.build import load_prices, make_task

    make_task(config, load_prices(config))


def _train_and_look(run: RunDirectory, config: Config, console: Console) -> dict[str, Any]:
    train(run, config, console)
    look = evaluate_run(run, "holdout")
    console.print(look.shown, highlight=False)
    console.print(f"run {run.path}", highlight=False, soft_wrap=True)
    return {"run": str(run.path), "evaluation": look.facts}


def print_config(overrides: Sequence[str], console: Console) -> None:
    config = load_config(overrides)
    console.print(
        yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False), highlight=False, markup=False
    )
    changed = differences(preset_config(config.presets), config)
    names = " ".join(f"{group}={name}" for group, name in config.presets.items())
    console.print(
        f"# differs from the preset {names}:" if changed else f"# as in the preset {names}", highlight=False
    )
    for key, (before, after) in changed.items():
        console.print(f"#   {key}: {before} -> {after}", highlight=False, markup=False)


def look_at_run(arguments: Sequence[str], split: str) -> Look:
    if len(arguments) > 1 or any("=" in argument for argument in arguments):
        raise ConfigError(
            "Name one run, e.g. `eigen2 evaluate runs/erl_sp20_seed7`; overrides go with --policy."
        )
    return evaluate_run(find_run(arguments[0] if arguments else None, Path("runs")), split)


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
            console.print(
                f"{finding.severity}: {finding.sentence()}", highlight=False, markup=False, soft_wrap=True
            )
    if bad:
        raise DataError(
            f"{file} cannot be used: {len(bad)} problem{'s' if len(bad) > 1 else ''}; {bad[0].sentence()}"
        )
    if emit is None:
        console.print(f"{file} can be used.", highlight=False)


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


def _with_replay(run: str, root: Path) -> Checkpoint:
    checkpoint = Checkpoints(find_run(run, root).path).newest_good().checkpoint
    if checkpoint is None or checkpoint.manifest.replay is None:
        raise ConfigError(f"{run} has no replay on disk yet.")
    return checkpoint
