"""The report as a page: what was counted, how often everything happened, and when."""

from __future__ import annotations

from headrace.pages import (
    ENGLISH_WORDS,
    Document,
    Header,
    Listing,
    Section,
    TableColumn,
    Tile,
    Words,
    document,
    items,
    join,
    table_section,
    tiles,
)
from headrace_scheduler.chaos.account import SHOWN_MAX
from headrace_scheduler.chaos.chaos_report import ChaosReport
from headrace_scheduler.chaos.fault_plan import MEANINGS, FaultKind

TITLE = "Scheduler: chaos"


def chaos_page(report: ChaosReport) -> Document:
    words = ENGLISH_WORDS
    span = f"seed {report.seed}, {report.nodes} nodes, {report.workers} workers, locks of {report.lock_ttl_ms:,} ms"
    sentence = report.sentence[:1].upper() + report.sentence[1:]
    header = Header(TITLE, TITLE, sentence, "good" if report.right else "bad", span)
    figures = {
        "Jobs accepted": report.submitted,
        "Effects": report.effects,
        "Runs": report.runs,
        "Late acts refused": report.late_acts_refused,
        "Faults": sum(report.faults.values()),
    }
    lead = tiles([Tile(name, words.number(count)) for name, count in figures.items()])
    return document(words, header, lead, _sections(words, report))


def _sections(words: Words, report: ChaosReport) -> list[Section]:
    faults = Listing(
        "faults",
        "Faults",
        [
            TableColumn("Fault", "fault"),
            TableColumn("What happens", "meaning", wide=True),
            TableColumn("Times", "times", number=True),
        ],
        [(str(kind), MEANINGS[kind], report.faults[kind]) for kind in FaultKind],
    )
    counted = Listing(
        "counted",
        "Counted",
        [TableColumn("What", "what", wide=True), TableColumn("Count", "count")],
        [(name, str(value)) for name, value in report.rows.items()],
    )
    happened = Listing(
        "events",
        "What happened when",
        [
            TableColumn("Second", "second", number=True),
            TableColumn("Fault", "kind", filter="choice"),
            TableColumn("What", "what", wide=True),
        ],
        [(round(event.at_s, 1), str(event.kind), event.words) for event in report.events],
    )
    wrong = [Section("wrong", "What does not add up", join(items(report.wrong[:SHOWN_MAX])))] if report.wrong else []
    return [*wrong, *(table_section(words, each) for each in (counted, faults, happened))]
