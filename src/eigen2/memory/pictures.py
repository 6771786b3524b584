"""An account of a run's memory in lines of text: a snapshot, the trend, what grew, and the verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

from eigen2.memory.verdict import Verdict, assess, sessions
from eigen2.memory.words import size_words

ROWS = 8
Record = Mapping[str, Any]


def account(records: Sequence[Record]) -> list[str]:
    """Of all records up to now; an empty run has nothing but a verdict."""
    verdict = assess(records)
    if not records:
        return [verdict.sentence]
    session = sessions(records)[-1]
    return [*snapshot(session), *trend(session), *grown(verdict), verdict.sentence]


def snapshot(session: Sequence[Record]) -> list[str]:
    """The newest record, with the newest of what is not measured at every step."""
    last = session[-1]
    lines = [f"memory after step {last['step']}: RSS {size_words(last['rss_bytes'])}" + _details(session)]
    owners = sorted(last.get("owners", {}).items(), key=lambda item: -item[1])
    if owners:
        lines.append("  by owner: " + ", ".join(f"{name} {size_words(size)}" for name, size in owners))
    counted = next((record for record in reversed(session) if "census" in record), None)
    if counted is not None:
        census = counted["census"]
        kinds = (f"{n['count']:,} {kind} ({size_words(n['bytes'])})" for kind, n in census["kinds"].items())
        lines.append(f"  alive after step {counted['step']}: " + ", ".join(kinds))
        common = sorted(census["types"].items(), key=lambda item: -item[1])[:ROWS]
        lines.append("  objects: " + ", ".join(f"{count:,} {name}" for name, count in common))
        for array in census["big"][:ROWS]:
            lines.append(
                f"  {size_words(array['bytes'])}: {array['kind']} {array['shape']} {array['dtype']}, "
                f"held by {array['holder'] or 'nothing with a name'}"
            )
    return lines


def trend(session: Sequence[Record]) -> list[str]:
    """RSS of a few steps from the first to the last, and the change from row to row."""
    places = sorted({round(i * (len(session) - 1) / max(ROWS - 1, 1)) for i in range(ROWS)})
    before = session[0].get("baseline", {}).get("rss_bytes")
    lines = [f"  {'step':>8} {'RSS':>10} {'change':>10}"]
    if before is not None:
        lines.append(f"  {'baseline':>8} {size_words(before):>10}")
    for record in (session[place] for place in places):
        rss = record["rss_bytes"]
        change = "" if before is None else size_words(rss - before)
        lines.append(f"  {record['step']:>8} {size_words(rss):>10} {change:>10}")
        before = rss
    return lines


def grown(verdict: Verdict) -> list[str]:
    lines = []
    for title, slopes in (("by phase", verdict.phases), ("by owner", verdict.owner_slopes)):
        shown = {name: value for name, value in slopes.items() if abs(value) >= 1000}
        if shown:
            words = ", ".join(f"{name} {size_words(value)}" for name, value in shown.items())
            lines.append(f"  growth per step {title}: {words}")
    if verdict.profiler_share is not None:
        lines.append(f"  measuring memory took {100 * verdict.profiler_share:.2f} % of the time")
    return lines


def _details(session: Sequence[Record]) -> str:
    known = {**session[0].get("baseline", {})}
    for record in session:
        known |= record.get("details", {})
    if "uss_bytes" not in known:
        return ""
    words = (
        f", USS {size_words(known['uss_bytes'])}, VMS {size_words(session[-1]['vms_bytes'])}; "
        f"{size_words(known['used_bytes'])} of {size_words(known['limit_bytes'])} ({known['limit']}) in use"
    )
    if "gpu_allocated_bytes" in known:
        words += (
            f"; GPU {size_words(known['gpu_allocated_bytes'])} allocated, {size_words(known['gpu_reserved_bytes'])} "
            f"reserved, {size_words(known['gpu_peak_bytes'])} at most"
        )
    return words
