"""The report as one HTML file, made of the parts of `headrace.pages`.

Names of files and messages come from strangers: they are cut to a length that fits a table, and escaped by the kit.
"""

from __future__ import annotations

from datetime import datetime

from headrace.pages import (
    Chart,
    ChartRow,
    Document,
    Header,
    HeatMap,
    HeatMark,
    HeatRow,
    Html,
    Listing,
    Section,
    Series,
    TableColumn,
    Tile,
    Words,
    columns,
    document,
    heat_map,
    join,
    lines,
    mark,
    notes,
    paragraphs,
    plain,
    table,
    tiles,
)
from headrace_pm.operators.delivery_gaps import MISSING, PRESENT, GapReport
from headrace_pm.report.pipeline_report import PERCENTILES, SEEN, SINKS, PipelineReport
from headrace_pm.tables.counts import FILE_STATES

ELEMENTS_MAX = 1_000
TEXT_CHARS_MAX = 300
DAY_S = 86_400
# What is under way is one colour: how far exactly is of interest for minutes only.
_TONES = {
    "MOVED": "good",
    "COMPLETED": "plain",
    "PARTIAL_DONE": "warn",
    "PROCESSING": "other",
    "PARSING": "other",
    "DOWNLOADING": "other",
    "PENDING": "neutral",
    "ERROR": "bad",
}


def page(report: PipelineReport, words: Words) -> Document:
    """The page in the language of the words."""
    missing = report.gaps.missing if report.gaps else 0
    errors = report.now["ERROR"]
    is_good = not missing and not errors
    said = words("headline.good", count=report.seen)
    if not is_good:
        said = words("headline.bad", missing=missing, errors=errors)
    window = words("window", first=report.steps.first, end=report.steps.end, when=report.made_at)
    header = Header(
        words("title", day=report.steps.first.date()), words("name"), said, "good" if is_good else "bad", window
    )
    parts = {"files": _files, "latency": _latency, "gaps": _gaps, "errors": _errors}
    sections = [Section(name, words(f"section.{name}"), part(words, report)) for name, part in parts.items()]
    return document(words, header, join(_tiles(words, report), _remarks(words, report)), sections)


def _remarks(words: Words, report: PipelineReport) -> Html:
    return notes(words, [report.gaps_missing] if report.gaps_missing else [])


def _tiles(words: Words, report: PipelineReport) -> Html:
    now = report.now
    waiting = sum(now[state] for state in ("PENDING", "DOWNLOADING", "PARSING", "PROCESSING"))
    latest = report.latency["both"].percentile(95)
    entries = [
        Tile(words("tile.seen"), words.number(report.seen), "", "#files"),
        Tile(words("tile.waiting"), words.number(waiting), words("tile.now")),
        Tile(words("tile.partial"), words.number(now["PARTIAL_DONE"]), words("tile.now")),
        Tile(words("tile.errors"), words.number(now["ERROR"]), words("tile.now"), "#errors" if now["ERROR"] else ""),
        Tile(words("tile.latency"), "–" if latest is None else f"{words.number(latest)} s", "", "#latency"),
    ]
    if report.gaps:
        more = words("tile.gaps.more", count=report.gaps.expected)
        entries.append(Tile(words("tile.gaps"), words.number(report.gaps.missing), more, "#gaps"))
    return tiles(entries)


def _files(words: Words, report: PipelineReport) -> Html:
    if not report.seen:
        return paragraphs(words("files.none"))
    known = [state for state in FILE_STATES if any(counts.get(state) for counts in report.states.values())]
    other = sorted({state for counts in report.states.values() for state in counts} - set(FILE_STATES))
    shown = [*reversed(known), *other]
    rows = []
    for place, at in enumerate(report.steps.begins()):
        counts = report.states.get(place, {})
        rows.append(ChartRow(words.shown(at), [counts.get(state, 0) for state in shown], short=_short(report, at)))
    series = [Series(state, _TONES.get(state, "other")) for state in shown]
    return columns(words, Chart("files-by-state", words("files.caption"), words("files.label"), series, rows))


def _latency(words: Words, report: PipelineReport) -> Html:
    if not any(latency.count for latency in report.latency.values()):
        return paragraphs(words("latency.none"))
    rows = []
    for place, at in enumerate(report.steps.begins()):
        found = report.latency_steps.get(place)
        values = [found.percentile(share) if found else None for share in PERCENTILES]
        rows.append(ChartRow(words.shown(at), values, short=_short(report, at)))
    names = [words("latency.percentile", share=share) for share in PERCENTILES]
    tones = ("good", "plain", "bad")
    series = [Series(name, tone) for name, tone in zip(names, tones, strict=True)]
    chart = Chart("latency-over-time", words("latency.over_time"), words("latency.label"), series, rows)
    heads = [
        TableColumn(words("column.sink")),
        TableColumn(words("column.files"), number=True),
        *(TableColumn(name, number=True) for name in names),
        TableColumn(words("column.slowest"), number=True),
    ]
    cells = [
        (
            words(f"sink.{sink}"),
            report.latency[sink].count,
            *(report.latency[sink].percentile(share) for share in PERCENTILES),
            max(report.latency[sink].seconds, default=None),
        )
        for sink in SINKS
        if report.latency[sink].count or sink != SEEN
    ]
    listing = Listing("latency-sinks", words("latency.caption"), heads, cells, searched=False)
    notes = [words("latency.note")]
    if not report.latency[SEEN].count:
        notes.append(words("latency.unseen"))
    return join(lines(words, chart), table(words, listing), paragraphs(*notes))


def _gaps(words: Words, report: PipelineReport) -> Html:
    gaps = report.gaps
    if gaps is None:
        return paragraphs(report.gaps_missing)
    holey = [each for each in gaps.elements if each.missing]
    shown = gaps.elements[:ELEMENTS_MAX]
    said = [words("gaps.none")] if not holey else []
    if len(holey) > ELEMENTS_MAX:
        said.append(words("gaps.cut", count=len(holey) - ELEMENTS_MAX))
    marks = [
        HeatMark(PRESENT, words("gaps.present"), "neutral", "ground"),
        HeatMark(MISSING, words("gaps.missing"), "bad", "full"),
    ]
    begins = list(gaps.span.begins())
    chart = HeatMap(
        "gaps-map",
        words("gaps.caption", minutes=gaps.span.period_s // 60),
        marks,
        [words.shown(at) for at in begins],
        _ticks(words, gaps),
        words("gaps.element"),
        words("gaps.figure"),
    )
    rows = (
        HeatRow(
            plain(each.element.name, TEXT_CHARS_MAX),
            each.cells,
            words("gaps.about", missing=each.missing, count=len(gaps.span)),
            words.number(each.missing),
        )
        for each in shown
    )
    return join(paragraphs(*said), heat_map(words, chart, rows))


def _ticks(words: Words, gaps: GapReport) -> dict[int, str]:
    """Days above a map of several, some hours above a map of one, every hour above a shorter one."""
    length_s = len(gaps.span) * gaps.span.period_s
    is_long, hours = length_s > 2 * DAY_S, 1 if length_s <= DAY_S // 2 else 3
    found = {}
    for place, at in enumerate(gaps.span.begins()):
        if is_long and at.hour == at.minute == 0:
            found[place] = words.day(at)[:5] if words.language == "vi" else f"{at:%m-%d}"
        elif not is_long and at.minute == 0 and at.hour % hours == 0:
            found[place] = f"{at:%H:%M}"
    return found


def _errors(words: Words, report: PipelineReport) -> Html:
    if not report.errors:
        return paragraphs(words("errors.none"))
    heads = [
        TableColumn(words("column.fault"), wide=True),
        TableColumn(words("column.state"), "state", filter="choice"),
        TableColumn(words("column.files"), number=True),
        TableColumn(words("column.last")),
        TableColumn(words("column.file"), wide=True),
        TableColumn(words("column.example"), wide=True),
    ]
    rows = [
        (
            plain(each.fault, TEXT_CHARS_MAX),
            mark(_TONES.get(each.state, "other"), each.state),
            each.count,
            each.last_at,
            plain(each.file_name, TEXT_CHARS_MAX),
            plain(each.example, TEXT_CHARS_MAX),
        )
        for each in report.errors
    ]
    return table(words, Listing("errors-list", words("errors.caption"), heads, rows))


def _short(report: PipelineReport, at: datetime) -> str:
    return f"{at:%m-%d}" if report.steps.period_s >= DAY_S else f"{at:%H:%M}"
