"""The findings as files: `bench.json`, a CSV per part, and `bench.html` with plots."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import writing_to
from headrace.pages import (
    ENGLISH_WORDS,
    Chart,
    ChartRow,
    Document,
    Header,
    Html,
    Listing,
    Section,
    Series,
    TableColumn,
    Tile,
    Words,
    columns,
    document,
    join,
    save,
    table,
    tiles,
)
from headrace_scheduler.bench.bench_plan import GOALS, JOBS, LOCKS, PARTS, WORKERS, Finding

TITLE = "Scheduler: benchmarks"
INCOMPLETE = "Incomplete: not all of it was measured."
_TITLES = {LOCKS: "Locks", JOBS: "Jobs end to end", WORKERS: "Several workers"}
_TITLES |= {
    "idle": "An idle worker",
    "finished": "The poll after many jobs",
    "locked": "A job behind locked ones",
    GOALS: "Goals",
}


def write_report(findings: Sequence[Finding], folder: Path, complete: bool = True) -> list[Path]:
    """All files of a run, or of as much of it as there is; their paths."""
    with writing_to(folder, "name another by --output"):
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / "bench.json", folder / "bench.html"]
        whole = {"complete": complete, "findings": list(findings)}
        # Each replaced as a whole: whoever interrupts a run does so while the next finding is being written.
        save(json.dumps(whole, indent=1, ensure_ascii=False), files[0])
        save(page(findings, complete), files[1])
        for part in (*PARTS, GOALS):
            if found := _of(findings, part):
                files.append(folder / f"{part}.csv")
                save(_csv(found), files[-1])
    return files


def _csv(found: list[Finding]) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, _names(found))
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()


def page(findings: Sequence[Finding], complete: bool = True) -> Document:
    words, aims = ENGLISH_WORDS, _of(findings, GOALS)
    missed = [aim for aim in aims if not aim["reached"]]
    headline = f"{len(aims) - len(missed)} of {len(aims)} goals reached" if aims else ""
    tone = "plain" if not aims else "warn" if missed else "good"
    if not complete:
        headline, tone = f"{INCOMPLETE} {headline}".strip(), "warn"
    lead = tiles(
        [
            Tile(str(aim["goal"]), aim["found"], f"wanted {aim['wanted']}", tone="good" if aim["reached"] else "warn")
            for aim in aims
        ]
    )
    parts = [part for part in (*PARTS, GOALS) if _of(findings, part)]
    sections = [Section(part, _TITLES[part], _content(words, part, _of(findings, part))) for part in parts]
    return document(words, Header(TITLE, TITLE, headline, tone), lead, sections)


def _content(words: Words, part: str, found: list[Finding]) -> Html:
    names = _names(found)
    numbers = {name: all(isinstance(each.get(name), int | float) for each in found) for name in names}
    head = [TableColumn(name.replace("_", " "), name, number=numbers[name]) for name in names]
    rows = [[_cell(each.get(name)) for name in names] for each in found]
    return join(*_charts(words, part, found), table(words, Listing(part, _TITLES[part], head, rows)))


def _charts(words: Words, part: str, found: list[Finding]) -> list[Html]:
    if part == LOCKS:
        granted = [each for each in found if each["op"] == "acquire"]
        return [_chart(words, f"acquire-{value}", granted, _mix, value) for value in ("ops_per_s", "p50_ms", "p99_ms")]
    if part == JOBS:
        # A chart for each line: names of all of them would not fit under one.
        lines = dict.fromkeys(each["line"] for each in found)
        return [_chart(words, f"jobs-{line}", [each for each in found if each["line"] == line], _who) for line in lines]
    return [_chart(words, "workers-jobs", found, _workers)] if part == WORKERS else []


def _chart(words: Words, name: str, found: list[Finding], label: object, value: str = "jobs_per_s") -> Html:
    assert callable(label)
    rows = [ChartRow(label(each), [_number(each[value])]) for each in found]
    return columns(words, Chart(name, name.replace("-", ": "), "of", [Series(value)], rows, 1))


def _mix(finding: Finding) -> str:
    return f"{finding['contention']} ×{finding['threads']} {finding['ttl_ms']} ms"


def _who(finding: Finding) -> str:
    return str(finding["who"])


def _workers(finding: Finding) -> str:
    return f"{finding['workers']} × {finding['in_progress']}"


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _cell(value: object) -> object:
    return ("yes" if value else "no") if isinstance(value, bool) else value


def _names(found: list[Finding]) -> list[str]:
    return [name for name in dict.fromkeys(name for each in found for name in each) if name != "part"]


def _of(findings: Sequence[Finding], part: str) -> list[Finding]:
    return [
        {name: value for name, value in each.items() if name != "part"} for each in findings if each["part"] == part
    ]
