"""Static pictures of a report's charts: the same figures, drawn by matplotlib into PNG files."""

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eigen2.errors import ConfigError
from eigen2.report.charts import COLOURS, Figure
from eigen2.report.shown import Section
from eigen2.store.durable import write_atomically

DASHES = {"dash": "--", "dot": ":", "dashdot": "-."}
MARKERS = {"triangle-up": "^", "triangle-down": "v", "star-open": "*"}
DATE = re.compile(r"\d{4}-\d\d-\d\d")
RGBA = re.compile(r"rgba?\(([^)]*)\)")
DPI = 110


def write_stills(parts: Sequence[Section], directory: Path) -> list[Path]:
    """One PNG for each chart, numbered as they stand in the report; of a chart with choices, the one that is open."""
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise ConfigError("static pictures need matplotlib: pip install 'eigen2[png]'.") from error
    charts = [(part, shown) for part in parts for shown in part.shown if shown.figure is not None]
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for number, (part, shown) in enumerate(charts, start=1):
            assert shown.figure is not None
            canvas = Canvas(
                figsize=(7.5, 0.01 * shown.figure["layout"].get("height", 330)), layout="constrained"
            )
            _draw(canvas.add_subplot(), shown.figure, shown.title)
            target = io.BytesIO()
            canvas.savefig(target, format="png", dpi=DPI)
            path = directory / f"{number:02d}-{_plain(part.title)}-{_plain(shown.title)}.png"
            write_atomically(path, target.getvalue())
            written.append(path)
    except OSError as error:
        raise ConfigError(
            f"{directory} cannot be written ({error.strerror}); --png names another place."
        ) from error
    return written


def _draw(axes: Any, figure: Figure, title: str) -> None:
    traces = figure["data"]
    if "choices" in figure:
        choice = figure["choices"][figure["chosen"]]
        traces, title = [traces[at] for at in choice["traces"]], f"{title}: {choice['label']}"
    base: dict[Any, float] = {}
    lower: Mapping[str, Any] = {}
    for place, trace in enumerate(traces):
        colour = _colour(trace, place)
        if trace["type"] == "heatmap":
            _heat(axes, trace)
        elif trace["type"] == "bar":
            width = (trace["x"][1] - trace["x"][0]) if len(trace["x"]) > 1 else 1.0
            axes.bar(trace["x"], trace["y"], width, label=_word(trace), color=colour, alpha=0.65)
        elif "stackgroup" in trace:
            tops = [base.get(x, 0.0) + float(y or 0.0) for x, y in zip(trace["x"], trace["y"], strict=True)]
            bottoms = [base.get(x, 0.0) for x in trace["x"]]
            axes.fill_between(
                _places(trace["x"]), bottoms, tops, label=_word(trace), color=colour, alpha=0.6, linewidth=0
            )
            base |= dict(zip(trace["x"], tops, strict=True))
        else:
            if trace.get("fill") == "tonexty" and len(lower.get("x", [])) == len(trace["x"]):
                shade = _rgba(str(trace.get("fillcolor"))) or (0.12, 0.44, 0.92, 0.2)
                label = _word(trace) if trace.get("showlegend", True) else None
                axes.fill_between(
                    _places(trace["x"]), lower["y"], trace["y"], color=shade, linewidth=0, label=label
                )
            _points(axes, trace, colour)
        lower = trace
    axes.set_title(title[:90], fontsize=10, loc="left")
    for side in ("x", "y"):
        getattr(axes, f"set_{side}label")(
            figure["layout"].get(f"{side}axis", {}).get("title", {}).get("text", ""), fontsize=9
        )
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    if figure["layout"].get("showlegend") and axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=7, ncols=3, frameon=False, loc="best")


def _points(axes: Any, trace: Mapping[str, Any], colour: Any) -> None:
    style = trace.get("line") or {}
    if style.get("width") == 0:
        return
    x, y = _places(trace["x"]), [float("nan") if value is None else value for value in trace["y"]]
    if trace["mode"] == "markers":
        marker = trace.get("marker") or {}
        shades = marker.get("color")
        many = shades if isinstance(shades, list) else None
        chosen = {"c": many, "cmap": "Blues"} if many else {"color": colour}
        symbol = MARKERS.get(str(marker.get("symbol")), "o")
        axes.scatter(
            x, y, s=float(marker.get("size", 6)) ** 2 / 2, marker=symbol, label=_word(trace), **chosen
        )
        return
    dash = DASHES.get(str(style.get("dash")), "-")
    axes.plot(
        x, y, dash, label=_word(trace), color=colour, linewidth=min(2.5, float(style.get("width", 1.4)))
    )


def _heat(axes: Any, trace: Mapping[str, Any]) -> None:
    cells = [[float("nan") if value is None else value for value in row] for row in trace["z"]]
    image = axes.imshow(cells, aspect="auto", cmap="Blues", interpolation="nearest", origin="lower")
    axes.figure.colorbar(image, ax=axes, fraction=0.03)
    axes.set_yticks(range(len(trace["y"])), [str(name)[:16] for name in trace["y"]])
    every = max(1, len(trace["x"]) // 6)
    axes.set_xticks(range(0, len(trace["x"]), every), [str(x)[:10] for x in trace["x"][::every]])


def _places(values: Sequence[Any]) -> Any:
    """Dates as dates, everything else as it is; gaps stay gaps."""
    import numpy as np

    if values and all(isinstance(value, str) and DATE.match(value) for value in values):
        return np.array([value[:10] for value in values], dtype="datetime64[D]")
    if any(isinstance(value, str) for value in values):
        return [str(value)[:24] for value in values]
    return [float("nan") if value is None else value for value in values]


def _colour(trace: Mapping[str, Any], place: int) -> Any:
    named = (trace.get("line") or {}).get("color") or (trace.get("marker") or {}).get("color")
    if isinstance(named, str):
        return _rgba(named) or named
    return COLOURS[place % len(COLOURS)]


def _rgba(text: str) -> tuple[float, ...] | None:
    found = RGBA.fullmatch(text)
    if found is None:
        return None
    red, green, blue, *alpha = (float(part) for part in found[1].split(","))
    return (red / 255, green / 255, blue / 255, *(alpha or [1.0]))


def _word(trace: Mapping[str, Any]) -> str:
    # A leading underscore would hide a name from the legend.
    return str(trace.get("name", "")).lstrip("_")[:40] or " "


def _plain(title: str) -> str:
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "chart"
