"""One self-contained HTML file: opens from disk, needs no network, light and dark, prints well."""

import json
from pathlib import Path
from typing import Any

from eigen2.errors import ConfigError
from eigen2.report.charts import COLOURS
from eigen2.report.library import packed_text
from eigen2.report.reading import RunView, read_run
from eigen2.report.sections import sections, summary
from eigen2.report.shown import Section
from eigen2.store.durable import write_atomically


def write_report(run: Path, to: Path | None = None) -> Path:
    """The report of a run that trains, is done or has crashed; returns where it is."""
    return written(render(read_run(run)), to or run / "report.html")


def written(text: str, target: Path) -> Path:
    """The page is there whole or not at all; a link in its place is replaced, not followed."""
    try:
        write_atomically(target, text.encode())
    except OSError as error:
        raise ConfigError(
            f"{target} cannot be written ({error.strerror}); --to FILE names another place."
        ) from error
    return target


def render(view: RunView) -> str:
    return page(f"{view.name}: report", view.name, summary(view), sections(view))


def page(title: str, heading: str, facts: list[tuple[str, str]], parts: list[Section]) -> str:
    from jinja2 import Environment, PackageLoader

    templates = Environment(loader=PackageLoader("eigen2.report", "templates"), autoescape=True)
    figures = [shown.figure for part in parts for shown in part.shown if shown.figure is not None]
    return templates.get_template("page.html").render(
        title=title, heading=heading, facts=facts, parts=parts, figures=_script_json(figures), plotly=packed_text(),
        colours=json.dumps(COLOURS),
    )  # fmt: skip


def _script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever a stranger's run is called."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
