"""The command line: one function per verb, no logic."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from eigen2.errors import ConfigError, DamagedStateError
from eigen2.harness.answer import (
    conclude,
    console_of,
    greet,
    keep_stdout,
    print_json,
    replace_closed_streams,
    warn,
    working,
    write_json,
)
from eigen2.harness.exits import one_sentence

app = typer.Typer(
    add_completion=False, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train reinforcement-learning agents on machines that may disappear, and resume them bit for bit.",
    epilog="--debug, with any command, adds the traceback of a failure.",
)  # fmt: skip
data_app = typer.Typer(no_args_is_help=True, help="List the embedded price samples, check your own prices.")
replay_app = typer.Typer(no_args_is_help=True, help="Inspect a run's replay buffer.")
sync_app = typer.Typer(no_args_is_help=True, help="Push a run to a bucket, pull it back, compare the two.")
runs_app = typer.Typer()
pwm_app = typer.Typer(no_args_is_help=True, help="Compare PWM's world models.")
app.add_typer(runs_app, name="runs")
app.add_typer(data_app, name="data")
app.add_typer(replay_app, name="replay")
app.add_typer(pwm_app, name="pwm")
app.add_typer(sync_app, name="sync")


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"eigen2 {version('eigen2')}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:  # fmt: skip
    """Train reinforcement-learning agents on machines that may disappear, and resume them bit for bit."""


Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="key=value, e.g. env.data=sp20 alg.population=8 seed=3", show_default=False),
]
Json = Annotated[
    bool, typer.Option("--json", callback=keep_stdout, help="Print JSON, and nothing else, on stdout.")
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Show no progress, only results and warnings."),
]
RunName = Annotated[str, typer.Argument(help="A run directory, or a run's name.")]
Root = Annotated[Path, typer.Option("--root", "--log-dir", help="Directory that holds the runs.")]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="URL",
        help="gs://BUCKET/PREFIX, s3://..., az://... or file:///DIRECTORY; default: the cloud.url of the run's config.",
        show_default=False,
    ),
]
EnvId = Annotated[
    list[str] | None,
    typer.Option(
        "--env-id",
        metavar="MODULE:ID",
        help="Allow a stored run to import this module: repeat its env.id here.",
        show_default=False,
    ),
]
PriceFile = Annotated[
    Path, typer.Argument(help="A CSV or parquet file, or a folder of one such file per symbol.")
]
ParquetFile = Annotated[Path, typer.Argument(help="The parquet file to write.")]
NEWEST = "\0newest"


@app.command()
def train(
    overrides: Overrides = None,
    resume: Annotated[str | None, typer.Option("--resume", metavar="[RUN]", help="Resume a run; the newest one when none is named.")] = None,
    log_dir: Annotated[Path | None, typer.Option("--log-dir", metavar="DIR", help="Directory that holds the runs; the same as run.root=DIR.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Start even if the forecast says it will not fit.")] = False,
    holdout: Annotated[bool, typer.Option("--holdout", help="Evaluate on the holdout at the end instead of validation; counts as a use of the holdout.")] = False,
    env_id: EnvId = None,
    quiet: Quiet = False,
    show_config: Annotated[bool, typer.Option("--show-config", help="Print the resolved config and what differs from the preset, then exit.")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Train agents. Without arguments: ERL on the embedded sp20 prices.

    [bold]eigen2 train[/bold]                                      16 agents, 25 generations, sp20

    [bold]eigen2 train env.data=prices.csv seed=3[/bold]           your own prices

    [bold]eigen2 train env.actions=weights alg.population=8[/bold] another rule, fewer agents

    [bold]eigen2 train env=gym env.id=Pendulum-v1[/bold]           any continuous Gymnasium task

    [bold]eigen2 train alg=sb3_sac env=gym[/bold]                  another algorithm, here Stable-Baselines3's SAC

    [bold]eigen2 train --resume[/bold]                             resume the newest run

    [bold]eigen2 train cloud.url=gs://bucket/runs[/bold]           a copy of everything in a bucket

    [bold]eigen2 train --resume gs://bucket/runs/NAME[/bold]       resume it on an empty machine
    """
    if show_config:
        from eigen2.harness.commands import config_facts, config_text

        found = config_facts(overrides or [], log_dir)
        print_json(found) if as_json else typer.echo(config_text(found))
        return
    from eigen2.harness.signals import stoppable

    console, words = console_of(as_json, quiet), overrides or []
    greet(console)
    with stoppable(final=True) as signals:
        from eigen2.harness.evaluating import HOLDOUT, VALIDATION
        from eigen2.harness.training import Asked, resume_run, start_run

        asked = Asked(log_dir, force, HOLDOUT if holdout else VALIDATION, env_id or [], _page)
        if resume is None:
            facts = start_run(words, console, asked, signals)
        else:
            name = None if resume == NEWEST else resume
            facts = resume_run(name, words, console, asked, signals)
    if as_json:
        print_json(facts)


def _page(run: Path) -> Path:
    from eigen2.report.page import write_report

    return write_report(run)


@app.command()
def plan(
    overrides: Overrides = None,
    log_dir: Annotated[Path | None, typer.Option("--log-dir", metavar="DIR", help="Directory that holds the runs; the same as run.root=DIR.", show_default=False)] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Forecast memory, disk, upload and time from the config and a few trial steps. Writes nothing."""
    from eigen2.harness.planning import plan_run, table

    with working("calibrating: taking a few trial steps", quiet):
        facts, refusal = plan_run(overrides or [], log_dir)
    print_json(facts) if as_json else Console().print(table(facts), highlight=False)
    if refusal is not None:
        raise refusal


@app.command()
def evaluate(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="RUN", help="A run (default: the newest), and overrides: env.data=PATH if its prices moved, env.fee_bp=20 for a what-if.", show_default=False)] = None,
    split: Annotated[str, typer.Option("--split", help="validation or holdout. Every use of the holdout is counted and makes later verdicts stricter.")] = "validation",
    data: Annotated[Path | None, typer.Option("--data", metavar="FILE", help="A newer file of the same prices; the holdout is extended to its last day.", show_default=False)] = None,
    first: Annotated[str | None, typer.Option("--from", metavar="DATE", help="First day, inside the split.", show_default=False)] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="DATE", help="Last day, inside the split.", show_default=False)] = None,
    benchmark: Annotated[Path | None, typer.Option("--benchmark", metavar="FILE", help="CSV of portfolio weights to compare with; columns date, SYM1, SYM2, ... or symbol, weight.", show_default=False)] = None,
    walk_forward: Annotated[int | None, typer.Option("--walk-forward", metavar="N", help="Retrain on N - 1 shorter histories and join the out-of-sample returns of all N champions; the last is the run's, on its holdout.", show_default=False)] = None,
    policy: Annotated[str | None, typer.Option("--policy", help="Evaluate a benchmark instead of a run: equal_weight, rebalanced, ridge, random, cash or oracle.")] = None,
    env_id: EnvId = None,
    root: Root = Path("runs"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Evaluate a run's champion in its environment, beside the benchmarks."""
    given = arguments or []
    if policy is not None:
        from eigen2.config import load_config
        from eigen2.evaluation.named import evaluate_named
        from eigen2.store.holdout_ledger import user_ledger

        config = load_config(given)
        with working(f"evaluating {policy} on {split}", quiet):
            evaluation = evaluate_named(policy, config.env, config.seed, split, user_ledger())
    else:
        from eigen2.algorithms.contract import WhatIf
        from eigen2.harness.directory import named_run
        from eigen2.harness.evaluating import evaluate_run

        run, overrides = named_run(given, root, env_id)
        what_if = WhatIf(data=data, first=first, last=last, benchmark=benchmark)
        if walk_forward is not None:
            from eigen2.harness.walk_forward import walk_forward as walked

            if what_if:
                raise ConfigError("--walk-forward trains as the run was trained: it takes no what-ifs.")
            evaluation = walked(run, walk_forward, console_of(True, quiet), warn, overrides)
        else:
            with working(f"evaluating {run.name} on {split}", quiet):
                evaluation = evaluate_run(run, split, warn, overrides, what_if)
        from eigen2.harness.reporting import renew_page

        renew_page(run, _page, warn)
    print_json(evaluation.facts) if as_json else Console().print(evaluation.shown, highlight=False)


@runs_app.callback(invoke_without_command=True)
def runs(
    context: typer.Context,
    state: Annotated[list[str] | None, typer.Option("--state", metavar="STATE", help="Only running, done, stopped, crashed or damaged ones; can be repeated.", show_default=False)] = None,
    alg: Annotated[list[str] | None, typer.Option("--alg", metavar="NAME", help="Only runs of this algorithm, e.g. erl or 'pwm*'.", show_default=False)] = None,
    env: Annotated[list[str] | None, typer.Option("--env", metavar="NAME", help="Only runs in this environment, e.g. sp20.", show_default=False)] = None,
    name: Annotated[list[str] | None, typer.Option("--name", metavar="PATTERN", help="Only runs whose name matches, e.g. 'erl_*_seed7'.", show_default=False)] = None,
    sort: Annotated[str, typer.Option("--sort", metavar="COLUMN", help="By name, alg, env, seed, state, progress, best, size, age or host; by default the newest is last.")] = "age",
    reverse: Annotated[bool, typer.Option("--reverse", "-r", help="Reverse the order.")] = False,
    root: Root = Path("runs"),
    as_json: Json = False,
) -> None:  # fmt: skip
    """List runs with their state, progress, score and size.

    [bold]eigen2 runs --state running --state stopped[/bold]

    [bold]eigen2 runs --alg erl --sort best[/bold]

    [bold]eigen2 runs clean[/bold]                 what nothing needs any more; asks before it deletes
    """
    if context.invoked_subcommand is not None:
        context.obj = root
        return
    from eigen2.harness.run_table import chosen_runs, nothing_found, run_table

    patterns = {"state": state or [], "alg": alg or [], "env": env or [], "name": name or []}
    found = chosen_runs(root, patterns, sort, reverse)
    if as_json:
        write_json(found)
    elif found:
        Console().print(run_table(found), highlight=False)
    else:
        warn(nothing_found(root, any(patterns.values())))


@runs_app.command("clean")
def runs_clean(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="All runs when none is named.", show_default=False)] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    root: Annotated[Path | None, typer.Option("--root", "--log-dir", help="Directory that holds the runs.", show_default=False)] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """List files that no checkpoint, evaluation or upload needs, and delete them if you confirm.

    That is what killed processes left: every checkpoint stays. A run that is being trained is left alone, and so is a
    damaged one. Where nobody can be asked, nothing is deleted without --yes.
    """
    from eigen2.harness.cleaning import clean
    from eigen2.harness.directory import find_run

    place = root or context.obj or Path("runs")
    named = [find_run(name, place) for name in names] if names else None
    ask = sys.stdin.isatty() and not as_json

    def confirmed(size: str) -> bool:
        if yes or not ask:
            return yes
        return typer.confirm(f"Delete this, {size}?", err=True)

    facts = clean(place, named, confirmed, warn if as_json else typer.echo)
    if as_json:
        print_json(facts)
    elif facts["freed_bytes"] is None and facts["bytes"]:
        typer.echo("Nothing was deleted." if ask else "Nothing was deleted; --yes deletes it.")


@app.command()
def report(
    run: RunName,
    to: Annotated[Path | None, typer.Option(help="Output file; default: RUN/report.html.")] = None,
    png: Annotated[
        Path | None,
        typer.Option(
            "--png",
            metavar="DIR",
            help="Write the charts as PNG files instead, into DIR.",
            show_default=False,
        ),
    ] = None,
    root: Root = Path("runs"),
    as_json: Json = False,
) -> None:
    """Write one HTML page about a run, also while it trains."""
    from eigen2.harness.directory import find_run
    from eigen2.report.page import write_report

    if png is not None:
        from eigen2.report.reading import read_run
        from eigen2.report.sections import sections
        from eigen2.report.stills import write_stills

        stills = [
            str(path.absolute()) for path in write_stills(sections(read_run(find_run(run, root).path)), png)
        ]
        print_json({"pictures": stills}) if as_json else typer.echo("\n".join(stills))
        return
    path = write_report(find_run(run, root).path, to)
    if as_json:
        print_json({"report": str(path.absolute()), "bytes": path.stat().st_size})
    else:
        typer.echo(path)


@app.command()
def film(
    run: RunName,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Output file: .gif, .webp or .mp4; default: RUN/film.gif.", show_default=False)] = None,
    seconds: Annotated[float, typer.Option(help="Length of the film, in simulated seconds.")] = 10.0,
    small: Annotated[bool, typer.Option("--small", help="Fewer and smaller frames, as in reports.")] = False,
    env_id: EnvId = None,
    root: Root = Path("runs"),
    as_json: Json = False,
) -> None:  # fmt: skip
    """Film the champion of a control task (GIF, WebP or MP4)."""
    from eigen2.harness.directory import find_run
    from eigen2.harness.filming import film_run

    found = find_run(run, root, env_id)
    facts = film_run(found, out or found.path / "film.gif", seconds, warn, small)
    print_json(facts) if as_json else typer.echo(facts["film"])


@app.command()
def compare(
    runs: Annotated[list[str], typer.Argument(help="Run directories, or names of runs.")],
    metric: Annotated[str, typer.Option(help="The metric to compare.")] = "best_score",
    to: Annotated[Path, typer.Option(help="Output file.")] = Path("compare.html"),
    root: Root = Path("runs"),
    as_json: Json = False,
) -> None:
    """Compare runs: curves, config differences, statistics over seeds."""
    from eigen2.harness.directory import find_run
    from eigen2.report.comparing import compare_facts, compare_sections
    from eigen2.report.page import page, written
    from eigen2.report.reading import read_run

    views = [read_run(find_run(run, root).path) for run in runs]
    facts = compare_facts(views, metric)
    if as_json:
        print_json(facts)
        return
    parts = compare_sections(views, facts)
    for shown in (shown for part in parts for shown in part.shown if shown.rows):
        table = Table(*shown.head, title=shown.title, title_justify="left")
        for row in shown.rows:
            table.add_row(*row)
        Console().print(table)
    typer.echo(written(page("comparison", "Comparison", [("runs", str(len(views)))], parts), to))


@app.command()
def dashboard(
    root: Root = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 8080,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own needs a token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(envvar="EIGEN2_TOKEN", help="Access token; generated if needed and not given."),
    ] = None,
) -> None:
    """Serve a live, read-only page of all runs in a directory. Ctrl-C ends it."""
    from eigen2.report.serving import serve

    serve(root.absolute(), host, port, token, typer.echo)


@app.command()
def verify(
    run: RunName,
    sample: Annotated[str, typer.Option("--sample", metavar="SHARE", help="Read only a random share of the objects, e.g. 10%.")] = "100%",
    root: Root = Path("runs"),
    as_json: Json = False,
) -> None:  # fmt: skip
    """Check the hash of every stored byte of a run: objects, checkpoints, logs, config and best agent."""
    from eigen2.harness.directory import find_run
    from eigen2.harness.progress import transferring
    from eigen2.harness.verifying import share, verify_run, verify_text

    found, part = find_run(run, root), share(sample)
    with transferring(Console(stderr=True), f"reading {found.name}") as show:
        report = verify_run(found, part, show)
    conclude(report.as_dict(), verify_text(report), report.ok, as_json, (*report.damaged, *report.missing))


@app.command()
def repair(
    run: RunName,
    source: Annotated[str | None, typer.Option("--from", metavar="DIR|URL", help="A good copy of the run; its own cloud.url is always tried too.", show_default=False)] = None,
    root: Root = Path("runs"),
    as_json: Json = False,
) -> None:  # fmt: skip
    """Repair a damaged run from good copies, else from what is left, and say what was lost."""
    from eigen2.harness.progress import transferring
    from eigen2.harness.repair import damaged_run, repair_run, repair_text

    found = damaged_run(run, root)
    with transferring(Console(stderr=True), f"repairing {found.name}") as show:
        facts = repair_run(found, source, warn, show)
    print_json(facts) if as_json else typer.echo(repair_text(facts))
    if facts["lost"]:
        lost = "; ".join(sentence.removesuffix(".") for sentence in facts["lost"])
        raise DamagedStateError(f"{found.path} was repaired with losses: {lost}.")


@app.command("verify-resume")
def verify_resume(
    run: RunName, env_id: EnvId = None, root: Root = Path("runs"), as_json: Json = False
) -> None:
    """Repeat the last step from the previous checkpoint and compare every tensor."""
    from eigen2.harness.directory import find_run
    from eigen2.harness.verify import verify_resume as prove

    with working(f"running the last step of {run} again"):
        proof = prove(find_run(run, root, env_id), warn)
    conclude(proof.to_json(), f"Steps {proof.first + 1} to {proof.last} ran again: every tensor and the replay are identical.", proof.ok, as_json, tuple(f"{name} differs after the step was run again" for name in proof.differing))  # fmt: skip


@app.command()
def fingerprint(run: RunName, root: Root = Path("runs"), as_json: Json = False) -> None:
    """Print one hash of the whole training state."""
    from eigen2.harness.directory import find_run
    from eigen2.harness.verify import run_fingerprint

    facts = run_fingerprint(find_run(run, root), warn)
    print_json(facts) if as_json else typer.echo(f"{facts['fingerprint']}  step {facts['step']}")


@app.command()
def memory(run: RunName, root: Root = Path("runs"), as_json: Json = False) -> None:
    """Show what holds a run's memory, how it grows from step to step, and whether it leaks."""
    from eigen2.harness.commands import memory_facts, memory_text

    print_json(memory_facts(run, root)) if as_json else typer.echo(memory_text(run, root))


@app.command()
def decide(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="RUN", help="A run or a directory that `export` wrote; the newest run when none is named.", show_default=False)] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="FILE", help="A newer file of the same prices; default: the run's own data.", show_default=False)] = None,
    holdings: Annotated[Path | None, typer.Option("--holdings", metavar="FILE", help="CSV of what you hold (symbol, shares); default: the champion's own positions.", show_default=False)] = None,
    date: Annotated[str | None, typer.Option("--date", metavar="DATE", help="Decide after this day's close, using nothing later; default: the last day.", show_default=False)] = None,
    capital: Annotated[float | None, typer.Option("--capital", help="Value of the portfolio; default: 10,000, or what the holdings are worth.", show_default=False)] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, and nothing else, on stdout: one line per trade or holding.")] = False,
    root: Root = Path("runs"),
    as_json: Json = False,
) -> None:  # fmt: skip
    """Print a champion's orders or weights for the next trading day."""
    from eigen2.algorithms.contract import Question
    from eigen2.harness.champions import csv_text, decide_named

    decision = decide_named(arguments or [], root, Question(data, holdings, date, capital), warn)
    if as_json:
        print_json(decision.facts)
    elif as_csv:
        sys.stdout.write(csv_text(decision))
    else:
        Console().print(decision.shown, highlight=False)


@app.command()
def export(
    arguments: Annotated[list[str], typer.Argument(metavar="RUN", help="A run, and env.data=PATH if its prices moved.")],
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="Output directory; default: RUN/export.", show_default=False)] = None,
    env_id: EnvId = None,
    root: Root = Path("runs"),
    as_json: Json = False,
) -> None:  # fmt: skip
    """Write a run's policies as plain files, with a model card."""
    from eigen2.harness.directory import named_run
    from eigen2.harness.export import export_run

    run, overrides = named_run(arguments, root, env_id)
    with working(f"exporting {run.name}"):
        facts = export_run(run, to, warn, overrides)
    if as_json:
        print_json(facts)
        return
    for name, file in facts["files"].items():
        typer.echo(f"{name:22} " + "  ".join(f"{key} {value}" for key, value in file.items()))
    for name, why in facts.get("absent", {}).items():
        typer.echo(f"{name:22} not there yet: {why}")
    typer.echo(facts["directory"])


@app.command()
def explain(
    words: Annotated[list[str] | None, typer.Argument(metavar="[KEY|SECTION|WORD]...", help="e.g. env.fee_bp, checkpoint or slippage; alg=NAME env=NAME for other presets.", show_default=False)] = None,
    page: Annotated[bool, typer.Option("--page", help="Print all of them as Markdown, as in docs/settings.md.")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Explain settings: meaning, type, range, default, and value in the chosen presets."""
    from eigen2.harness.explain import explain as found_by
    from eigen2.harness.explain import page as settings_page

    if page:
        typer.echo(settings_page(), nl=False)
        return
    found = found_by(words or [])
    if as_json:
        print_json({"settings": [asdict(one) for one in found]})
        return
    typer.echo("\n".join(line for one in found for line in one.lines()))


@app.command()
def doctor(overrides: Overrides = None, as_json: Json = False) -> None:
    """Check that this machine is ready: software, memory, disk, cloud and a small run; under a minute."""
    from eigen2.harness.doctor import examine, facts

    checks = []
    for check in examine(overrides or []):
        checks.append(check)
        if not as_json:
            typer.echo(check.line())
    found = facts(checks)
    if as_json:
        print_json(found)
    if not found["ok"]:
        raise ConfigError(f"{sum(not check.ok for check in checks)} of {len(checks)} checks failed.")


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """List the embedded samples and synthetic markets, with their caveats."""
    from eigen2.market.commands import sample_facts, sample_list

    print_json({"samples": sample_facts()}) if as_json else Console().print(sample_list(), highlight=False)


@data_app.command("check")
def data_check(file: PriceFile, overrides: Overrides = None, as_json: Json = False) -> None:
    """Say what a price file (or a folder of them) holds, what is wrong with it, by file, row and symbol, and what
    `train` would refuse with the same overrides. Nothing is written."""
    from eigen2.algorithms import registry
    from eigen2.config import load_config
    from eigen2.envs.trading.price_check import check_for_trading

    config = load_config(overrides or [])
    with working(f"reading {file}"):
        found = check_for_trading(file, config.env)
    found = found.also_refused(registry.algorithm(config.alg.kind).refuses(config, found.split_days))
    print_json(found.to_json()) if as_json else typer.echo("\n".join(found.lines()))
    found.require_usable()


@data_app.command("build")
def data_build(
    source: PriceFile, out: ParquetFile, overrides: Overrides = None, as_json: Json = False
) -> None:
    """Check a price file and write it as one parquet file."""
    from eigen2.config import load_config
    from eigen2.market.commands import build_prices

    with working(f"reading {source}"):
        facts = build_prices(source, out, load_config(overrides or []).env)
    print_json(facts) if as_json else typer.echo(f"{out}: {facts['days']} days, {facts['symbols']} symbols")


@replay_app.command("info")
def replay_info(run: RunName, root: Root = Path("runs"), as_json: Json = False) -> None:
    """Print the number of transitions, and their size in memory and on disk."""
    from eigen2.harness.commands import replay_facts

    facts = replay_facts(run, root, warn)
    print_json(facts) if as_json else typer.echo(
        "\n".join(f"{key:12} {value:,}" for key, value in facts.items())
    )


@replay_app.command("verify")
def replay_verify(run: RunName, root: Root = Path("runs"), as_json: Json = False) -> None:
    """Read and check every transition of a run's replay."""
    from eigen2.harness.commands import verify_replay

    facts = verify_replay(run, root, warn)
    print_json(facts) if as_json else typer.echo(f"{facts['segments']} segments: every block is intact.")


@sync_app.command("push")
def sync_push(
    run: RunName,
    to: To = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read everything in the bucket back, and upload damaged objects again.")] = False,
    root: Root = Path("runs"),
    as_json: Json = False,
) -> None:  # fmt: skip
    """Upload what the bucket lacks of a run."""
    from eigen2.harness.directory import find_run
    from eigen2.harness.sync import cloud_of, push_run, push_text

    found = find_run(run, root)
    facts = push_run(found, cloud_of(found, to, warn), console_of(as_json), verify)
    print_json(facts) if as_json else typer.echo(push_text(facts))
    if facts["damaged"]:
        raise DamagedStateError("; ".join(facts["damaged"]))


@sync_app.command("pull")
def sync_pull(
    run: Annotated[str, typer.Argument(help="A run in a bucket, e.g. gs://BUCKET/PREFIX/RUN; or a local run that has a cloud.url.")],
    root: Root = Path("runs"),
    as_json: Json = False,
) -> None:  # fmt: skip
    """Download everything a bucket holds of a run."""
    from eigen2.harness.sync import pull_named

    facts = pull_named(run, root, console_of(as_json))
    if as_json:
        print_json(facts)


@sync_app.command("status")
def sync_status(
    run: RunName,
    to: To = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read everything in the bucket and check the hashes.")] = False,
    root: Root = Path("runs"),
    as_json: Json = False,
) -> None:  # fmt: skip
    """Compare what a bucket and this machine hold of a run."""
    from eigen2.harness.directory import find_run
    from eigen2.harness.sync import cloud_of, status_text, sync_facts

    found = find_run(run, root)
    facts = sync_facts(found, cloud_of(found, to, warn), console_of(as_json), verify)
    print_json(facts) if as_json else typer.echo(status_text(facts))
    if facts.get("damaged"):
        raise DamagedStateError(
            f"{len(facts['damaged'])} objects are damaged in the bucket; `eigen2 sync push --verify` sends them again."
        )


@pwm_app.command("parity")
def pwm_parity(
    presets: Annotated[list[str] | None, typer.Argument(metavar="[PRESET]...", help="e.g. pwm_5M pwm_48M; all when none is named.", show_default=False)] = None,
    env: Annotated[str, typer.Option("--env", help="The task whose observation and action sizes are used.")] = "dflex_ant",
    as_json: Json = False,
) -> None:  # fmt: skip
    """Check that MLP and flow presets have the same number of parameters, within 1 %."""
    from eigen2.algorithms.pwm.parity import parity_facts, parity_table, require_parity

    facts = parity_facts(presets or [], env)
    print_json(facts) if as_json else Console().print(parity_table(facts), highlight=False)
    require_parity(facts)


def main() -> None:
    """Run the command; a failure is one sentence on stderr and an exit code."""
    replace_closed_streams()
    arguments = _optional_resume(sys.argv[1:])
    with one_sentence("--debug" in arguments):
        app([argument for argument in arguments if argument != "--debug"], standalone_mode=True)


def _optional_resume(arguments: list[str]) -> list[str]:
    """`--resume` may stand alone: give it a value when the next word is an option, an override or nothing."""
    out = []
    for index, argument in enumerate(arguments):
        following = arguments[index + 1] if index + 1 < len(arguments) else "-"
        alone = argument == "--resume" and (following.startswith("-") or "=" in following)
        out.append(f"--resume={NEWEST}" if alone else argument)
    return out
