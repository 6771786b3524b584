"""Several runs side by side: curves on one picture, what their configs differ in, and statistics over seeds.

Runs that differ in nothing but their seed are one group. Scores of a group are summed up by the interquartile mean with
a bootstrap interval over its runs; two groups by the probability that a run of one beats a run of the other.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from eigen2.errors import ConfigError
from eigen2.report.charts import figure, line
from eigen2.report.reading import RunView
from eigen2.report.shown import Section, Shown, number

DRAWS = 2_000
SAME_GROUP = ("seed", "run.name", "run.root", "cloud.url")
"""Keys that do not tell one experiment from another."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """Runs of one experiment, over seeds."""

    label: str
    runs: tuple[RunView, ...]

    def scores(self, metric: str) -> Floats:
        found = [run.last(metric) for run in self.runs]
        return np.array([value for value in found if isinstance(value, int | float)], np.float64)


def compare_facts(views: Sequence[RunView], metric: str) -> dict[str, Any]:
    """What `compare --json` prints."""
    if not any(metric in view.logs["metrics"] for view in views):
        known = sorted({name for view in views for name in view.logs["metrics"]})
        raise ConfigError(
            f"none of these runs has a metric called {metric}; there are: {', '.join(known) or 'none'}."
        )
    groups = grouped(views)
    scores = {group.label: group.scores(metric) for group in groups}
    return {
        "metric": metric,
        "groups": [{"label": group.label, "runs": [run.name for run in group.runs], **_summary(scores[group.label])}
                   for group in groups],
        "improvement": [{"better": a, "than": b, **_improvement(scores[a], scores[b])}
                        for a, b in combinations(scores, 2) if len(scores[a]) and len(scores[b])],
        "differences": differing(views),
    }  # fmt: skip


def compare_sections(views: Sequence[RunView], facts: Mapping[str, Any]) -> list[Section]:
    metric = str(facts["metric"])
    curves = [
        line(view.name, view.logs["metrics"]["step"], view.logs["metrics"][metric])
        for view in views
        if metric in view.logs["metrics"]
    ]
    results = Section("Results", [Shown(metric.replace("_", " "), figure(curves, "step", "", height=420))])
    rows = [[group["label"], str(group["n"]), number(group["iqm"]), _interval(group["interval"]), number(group["lowest"]),
             number(group["highest"])] for group in facts["groups"]]  # fmt: skip
    head = ["experiment", "runs", "interquartile mean", "95 % interval", "lowest", "highest"]
    results.shown.append(Shown(f"Final {metric.replace('_', ' ')} over seeds", rows=rows, head=head))
    if facts["improvement"]:
        rows = [[f"{row['better']} > {row['than']}", f"{row['probability']:.2f}", _interval(row["interval"])]
                for row in facts["improvement"]]  # fmt: skip
        results.shown.append(Shown("Probability of improvement", rows=rows, head=["", "", "95 % interval"]))
    if min((group["n"] for group in facts["groups"]), default=0) < 5:
        results.notes.append("Fewer than five runs in a group: the intervals say little.")
    if elsewhere := [key for key in facts["differences"] if key.startswith("env.")]:
        results.notes.append(
            f"The environments differ ({', '.join(elsewhere)}): scores need not be comparable."
        )
    config = Section("Differences", [Shown("Config", rows=[[key, *(number(v) for v in row)] for key, row in facts["differences"].items()], head=["key", *(view.name for view in views)])])  # fmt: skip
    return [results, config] if facts["differences"] else [results]


def grouped(views: Sequence[RunView]) -> list[Group]:
    """Runs of the same settings together, in the order in which they were named."""
    groups: dict[str, list[RunView]] = {}
    for view in views:
        same = {key: value for key, value in leaves(view.config) if key not in SAME_GROUP}
        groups.setdefault(json.dumps(same, sort_keys=True, default=str), []).append(view)
    labels = _labels([runs[0] for runs in groups.values()])
    return [Group(label, tuple(runs)) for label, runs in zip(labels, groups.values(), strict=True)]


def differing(views: Sequence[RunView]) -> dict[str, list[Any]]:
    """Keys whose values are not the same in all runs."""
    flat = [dict(leaves(view.config)) for view in views]
    keys = dict.fromkeys(key for one in flat for key in one)
    table = {key: [one.get(key) for one in flat] for key in keys if key not in ("run.name", "run.root")}
    return {key: row for key, row in table.items() if any(value != row[0] for value in row)}


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _labels(first: Sequence[RunView]) -> list[str]:
    """Each group by the name of its first run, without the seed."""
    names = [view.name.split("_seed")[0] for view in first]
    return [view.name if names.count(name) > 1 else name for view, name in zip(first, names, strict=True)]


def _summary(scores: Floats) -> dict[str, Any]:
    if not len(scores):
        return {"n": 0, "iqm": None, "interval": None, "lowest": None, "highest": None}
    draws = _resampled(scores, 0)
    low, high = np.quantile([iqm(draw) for draw in draws], [0.025, 0.975])
    return {"n": len(scores), "iqm": iqm(scores), "interval": [float(low), float(high)] if len(scores) > 1 else None,
            "lowest": float(scores.min()), "highest": float(scores.max())}  # fmt: skip


def iqm(scores: Floats) -> float:
    """Mean of the middle half; a quarter of the runs, rounded down, is cut at each end."""
    ordered = np.sort(scores)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def _improvement(a: Floats, b: Floats) -> dict[str, Any]:
    """P(a run of a > a run of b), ties half; the interval resamples both groups."""

    def probability(left: Floats, right: Floats) -> float:
        gap = left[:, None] - right[None, :]
        return float(((gap > 0) + 0.5 * (gap == 0)).mean())

    drawn = [probability(x, y) for x, y in zip(_resampled(a, 1), _resampled(b, 2), strict=True)]
    many = min(len(a), len(b)) > 1
    return {
        "probability": probability(a, b),
        "interval": [float(end) for end in np.quantile(drawn, [0.025, 0.975])] if many else None,
    }


def _resampled(scores: Floats, stream: int) -> Floats:
    generator = np.random.Generator(np.random.PCG64([7, stream]))
    return scores[generator.integers(0, len(scores), (DRAWS, len(scores)))]


def _interval(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f"{number(ends[0])} to {number(ends[1])}"
