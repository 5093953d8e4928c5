"""The report as a page."""

from __future__ import annotations

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
    element,
    items,
    join,
    lines,
    notes,
    paragraphs,
    table,
    tiles,
)
from headrace_scheduler.rca.rca_report import PLOT_PARTS, Plot, RcaReport, plots, time_text
from headrace_scheduler.rca.root_causes import RootCause

TITLE = "Scheduler: root causes"
_BAD = {"runs failed", "jobs dead", "warnings in the logs"}


def page(report: RcaReport) -> Document:
    words, evidence = ENGLISH_WORDS, report.evidence
    span = f"{time_text(evidence.since)} to {time_text(evidence.until)}"
    header = Header(TITLE, TITLE, report.headline, "bad" if report.causes else "good", span)
    figures = {"Jobs": evidence.jobs, "Runs": evidence.runs, "Dead": evidence.dead, "Log lines": evidence.events}
    lead = join(
        tiles([Tile(name, words.number(len(found))) for name, found in figures.items()]),
        notes(words, [f"Not known: {what}" for what in evidence.missing]),
    )
    return document(words, header, lead, _sections(words, report))


def _sections(words: Words, report: RcaReport) -> list[Section]:
    found = [_cause(each, number) for number, each in enumerate(report.causes)]
    if report.phrased:
        told = "A language model wrote this out of the causes; it is no evidence."
        found.append(Section("words", "In other words", join(paragraphs(report.phrased), element("p", told))))
    drawn = [_chart(words, report, plot, number) for number, plot in enumerate(plots(report.evidence))]
    listing = Listing(
        "timeline",
        "What happened when",
        [
            TableColumn("At", "at"),
            TableColumn("Seen in", "kind", filter="choice"),
            TableColumn("What", "what", wide=True, filter="text"),
            TableColumn("Times", "times", number=True),
        ],
        [(time_text(entry.at), entry.kind, entry.words, entry.count) for entry in report.entries],
    )
    return [
        *found,
        Section("plots", "Over the time", join(*drawn)),
        Section("timeline", "Timeline", table(words, listing)),
    ]


def _cause(each: RootCause, number: int) -> Section:
    title = f"{'Root cause' if number == 0 else 'Seen as well'}: {each.cause} ({each.subject})"
    content = join(
        element("p", f"Since {time_text(each.began_at)}."),
        items(each.signs),
        element("h3", "What you may do"),
        items(each.actions),
    )
    return Section(f"cause-{number + 1}", title, content)


def _chart(words: Words, report: RcaReport, plot: Plot, number: int) -> Html:
    starts = report.evidence.steps(PLOT_PARTS)
    rows = [
        ChartRow(time_text(at), [value], short=at.strftime("%H:%M"))
        for at, value in zip(starts, plot.values, strict=True)
    ]
    tone = "bad" if plot.name in _BAD else "plain"
    counted = all(value == int(value) and value >= 0 for value in plot.values)
    chart = Chart(f"plot-{number}", plot.name, "At", [Series(plot.name, tone)], rows, 0 if counted else 3)
    return columns(words, chart) if counted else lines(words, chart)
