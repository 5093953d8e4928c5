"""The quality report as one HTML file, made of the parts of `headrace.pages`.

Symbols, titles and addresses come from strangers: what they say is cut to a length that fits a table, and escaped by
the kit where it enters the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from itertools import groupby

from headrace.pages import (
    Cell,
    Document,
    Header,
    HeatMap,
    HeatMark,
    HeatRow,
    Html,
    Listing,
    Section,
    TableColumn,
    Tile,
    Words,
    document,
    filter_url,
    heat_map,
    join,
    mark,
    notes,
    paragraphs,
    plain,
    sparkline,
    table,
    terms,
    tiles,
)
from headrace_silver.market.price_bands import UNKNOWN
from headrace_silver.quality.values import MISSING, PRESENT, REJECTED, REVISED, WARNED, Quality, SymbolQuality
from headrace_silver.report.text import (
    TEXT_CHARS_MAX,
    binned,
    duration,
    gaps_text,
    headline,
    note_text,
    signed_percent,
    span_text,
)
from headrace_silver.report.words import ENGLISH, sentence

NAMES_MAX = 400
BREAKS_MAX = 500
NOTE_CHARS_MAX = 1_000
BINS = 52
GAPS_SHOWN = 3
# What a symbol is in, by the tone that says how bad it is.
_STATES = {"late": "bad", "gaps": "warn", "whole": "good", "stopped": "other"}


def page(quality: Quality, words: Words = ENGLISH) -> Document:
    """The page in the language of the words."""
    good, said = headline(words, quality)
    window = words("window", first=quality.days[0], last=quality.last_closed, count=len(quality.days))
    made = words("made", when=quality.made_at)
    told = [_short(note_text(words, note), NOTE_CHARS_MAX) for note in quality.notes]
    parts: dict[str, Callable[[Words, Quality], Html]] = {
        "late": _late,
        "days": _days,
        "symbols": _symbols,
        "rejects": _rejects,
        "bands": _bands,
        "articles": _articles,
        "reading": _reading,
    }
    return document(
        words,
        Header(
            words("title", day=quality.last_closed),
            words("name"),
            said,
            "good" if good else "bad",
            f"{window}. {made}.",
        ),
        join(_tiles(words, quality), notes(words, told)),
        [Section(name, words(f"section.{name}"), part(words, quality)) for name, part in parts.items()],
    )


def _short(said: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    return plain(said, chars_max)


def _tiles(words: Words, quality: Quality) -> Html:
    def tile(name: str, value: int | str, url: str = "", **more: object) -> Tile:
        shown = value if isinstance(value, str) else words.number(value)
        return Tile(words(f"tile.{name}"), shown, words(f"tile.{name}.more", **more), url)

    articles, active = quality.articles, quality.active
    missing = sum(entry.missing for entry in active)
    refused = sum(entry.count for entry in quality.rejects)
    late, gaps = (filter_url("symbols", state=state) for state in ("late", "gaps"))
    return tiles(
        [
            tile("symbols", len(active), "#symbols", stopped=len(quality.stopped)),
            tile("late", len(quality.late), late if quality.late else "", day=quality.last_closed),
            tile("complete", words.percent(quality.completeness), gaps if missing else "", count=missing),
            tile("revisions", sum(entry.revisions for entry in quality.symbols)),
            tile("rejected", refused, "#rejects" if refused else "", count=len(quality.rejects_by_rule)),
            tile("bands", len(quality.band_breaks), "#bands" if quality.band_breaks else ""),
            tile("articles", articles.articles, "#articles" if articles.articles else "", count=articles.sources),
            tile("copies", articles.copies_extra, count=articles.copy_groups),
        ]
    )


def _late(words: Words, quality: Quality) -> Html:
    stopped = ""
    if quality.stopped:
        names = _names(words, [_short(entry.symbol) for entry in quality.stopped])
        stopped = words("late.stopped", count=quality.settings.stopped_after, names=names)
    if not quality.late:
        return paragraphs(words("late.nobody", day=quality.last_closed), stopped)
    # One row for each rule, with the letter beside its symbol: a row for each letter buries those that never came.
    told = [(entry, *_why_late(words, entry, quality.last_closed)) for entry in quality.late]
    told.sort(key=lambda each: (-each[0].behind, each[1]))
    groups = groupby(told, key=lambda each: (each[0].last_day, each[0].behind, each[1]))
    rows = [
        (day, behind, reason, _names(words, [name for _, _, name in each])) for (day, behind, reason), each in groups
    ]
    columns = [
        TableColumn(words("column.last")),
        TableColumn(words("column.behind"), number=True),
        TableColumn(words("column.why")),
        TableColumn(words("column.symbols"), wide=True),
    ]
    listing = Listing("late", words("late.caption", day=quality.last_closed), columns, rows, searched=False)
    return join(table(words, listing), paragraphs(stopped))


def _why_late(words: Words, entry: SymbolQuality, day: date) -> tuple[str, str]:
    """Why a symbol has no bar for this day, and its name, with the letter if there is one."""
    why = entry.rejections.get(day)
    if why is None:
        return words("why.never"), _short(entry.symbol)
    named = words("late.letter", symbol=_short(entry.symbol), letter=str(why.letter))
    return words("why.rejected", rule=_short(why.rule)), named


def _names(words: Words, names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_MAX])
    return shown if len(names) <= NAMES_MAX else words("names.more", names=shown, count=len(names) - NAMES_MAX)


def _days(words: Words, quality: Quality) -> Html:
    marks = [
        HeatMark(PRESENT, words("cell.p"), "neutral", "ground"),
        HeatMark(MISSING, words("cell.m"), "bad", "full"),
        HeatMark(REJECTED, words("cell.x"), "bad", "lower"),
        HeatMark(REVISED, words("cell.r"), "good", "lower"),
        HeatMark(WARNED, words("cell.w"), "warn", "upper"),
    ]
    days, months = quality.days, words("months").split()
    ticks = {
        place: str(day.year) if day.month == 1 else months[day.month - 1]
        for place, day in enumerate(days)
        if place and day.month != days[place - 1].month
    }
    caption, names = words("days.caption"), [words.day(day) for day in days]
    chart = HeatMap("days", caption, marks, names, ticks, words("column.symbol"), words("column.complete"))
    entries = [entry for entry in (*quality.active, *quality.stopped) if entry.expected]
    rows = (
        HeatRow(_short(entry.symbol), entry.cells, _about(words, entry), words.percent(entry.completeness))
        for entry in entries
    )
    return heat_map(words, chart, rows)


def _about(words: Words, entry: SymbolQuality) -> str:
    """A row of the heat-map in words."""
    counts = [(entry.cells.count(letter), words(f"cell.{letter}")) for letter in (MISSING, REJECTED, REVISED, WARNED)]
    told = [f"{words.number(count)} {word}" for count, word in counts if count]
    return ", ".join([words("days.about", present=entry.present, count=entry.expected), *told])


def _symbols(words: Words, quality: Quality) -> Html:
    entries = [*quality.active, *quality.stopped]
    if not entries:
        return Html()
    states = {state: words(f"state.{state}") for state in _STATES}
    numbers = ("behind", "missing", "complete", "rejected", "valid", "revisions", "band", "tick", "closed")
    columns = [
        TableColumn(words("column.symbol"), "symbol"),
        TableColumn(words("column.state"), "state", filter="choice", choices=states),
        TableColumn(words("column.exchange"), "exchange", filter="choice"),
        TableColumn(words("column.first"), "first"),
        TableColumn(words("column.last"), "last"),
        *(TableColumn(words(f"column.{name}"), name, number=True) for name in numbers),
        TableColumn(words("column.gaps"), "gaps", wide=True, sorts=False),
    ]
    rows = [
        (
            _short(entry.symbol), _state(words, entry), _exchange(words, entry.exchange), entry.first_day,
            entry.last_day, entry.behind,
            Cell(words("missing", missing=entry.missing, count=entry.expected), [entry.missing]),
            words.percent(entry.completeness), entry.rejects, words.percent(entry.validity), entry.revisions,
            entry.band_days, entry.tick_days, entry.closed_days,
            gaps_text(words, entry, quality.days, GAPS_SHOWN),
        )
        for entry in entries
    ]  # fmt: skip
    return table(words, Listing("symbols", words("symbols.caption"), columns, rows))


def _exchange(words: Words, exchange: str) -> str:
    return words("exchange.unknown") if exchange == UNKNOWN else _short(exchange)


def _state(words: Words, entry: SymbolQuality) -> Cell:
    """The worst of its states is shown; it is found by each."""
    found = {
        "late": entry.late,
        "gaps": entry.missing > 0 and not entry.stopped,
        "whole": not (entry.late or entry.missing or entry.stopped),
        "stopped": entry.stopped,
    }
    states = [state for state, holds in found.items() if holds]
    return Cell(mark(_STATES[states[0]], words(f"state.{states[0]}")), states)


def _rejects(words: Words, quality: Quality) -> Html:
    if not quality.rejects:
        return join(paragraphs(words("rejects.none")), _closed(words, quality))
    width, series = binned(quality, BINS)
    rows = [
        (
            _short(rule),
            count,
            max(series[rule]),
            sparkline(series[rule], words("rejects.line", rule=_short(rule), most=max(series[rule]))),
            sentence(words, rule),
        )
        for rule, count in quality.rejects_by_rule.items()
    ]
    span = span_text(words, quality.days[0], quality.made_at.date())
    columns = [
        TableColumn(words("column.rule")),
        TableColumn(words("column.tasks"), number=True),
        TableColumn(words("column.most"), number=True),
        TableColumn(words("column.over_time"), sorts=False),
        TableColumn(words("column.asks"), wide=True, sorts=False),
    ]
    listing = Listing("rejects", words("rejects.caption", span=span, count=width), columns, rows)
    return join(table(words, listing), _closed(words, quality))


def _closed(words: Words, quality: Quality) -> Html:
    if not quality.closed:
        return Html()
    rows = [
        (_short(entry.rule), entry.count, _short(entry.note, NOTE_CHARS_MAX), _short(entry.by), entry.closed_at.date(),
         entry.letter)
        for entry in quality.closed
    ]  # fmt: skip
    columns = [
        TableColumn(words("column.rule")),
        TableColumn(words("column.letters"), number=True),
        TableColumn(words("column.note"), wide=True),
        TableColumn(words("column.by")),
        TableColumn(words("column.closed_at")),
        TableColumn(words("column.letter"), number=True),
    ]
    return table(words, Listing("closed", words("closed.caption"), columns, rows, searched=False))


def _bands(words: Words, quality: Quality) -> Html:
    if not quality.band_breaks:
        return paragraphs(words("bands.none"))
    latest = sorted(quality.band_breaks, key=lambda entry: (entry.day, entry.symbol), reverse=True)[:BREAKS_MAX]
    rows = [
        (
            _short(entry.symbol),
            _exchange(words, entry.exchange),
            entry.day,
            *(_price(words, price) for price in (entry.reference, entry.low, entry.high)),
            signed_percent(words, entry.change),
        )
        for entry in latest
    ]
    columns = [
        TableColumn(words("column.symbol")),
        TableColumn(words("column.exchange"), "exchange", filter="choice"),
        TableColumn(words("column.day"), "day", filter="days"),
        *(TableColumn(words(f"column.{name}"), number=True) for name in ("reference", "low", "high", "farthest")),
    ]
    all_of_them = len(latest) == len(quality.band_breaks)
    caption = words("bands.all") if all_of_them else words("bands.latest", count=BREAKS_MAX)
    return table(words, Listing("bands", caption, columns, rows))


def _price(words: Words, price: float) -> str:
    return words.number(price, 0 if price == round(price) else 2)


def _articles(words: Words, quality: Quality) -> Html:
    articles = quality.articles
    if not articles.articles:
        return paragraphs(words("articles.none"))
    rows = [
        (_short(source.domain), source.articles, source.vi, source.en, source.unknown, source.unstated,
         Cell(duration(words, source.lag_s_median), [source.lag_s_median]),
         Cell(duration(words, source.lag_s_95), [source.lag_s_95]))
        for source in articles.largest
    ]  # fmt: skip
    heads = (words("column.articles"), "vi", "en", *(words(f"column.{name}") for name in (
        "unknown", "unstated", "lag", "lag_95")))  # fmt: skip
    columns = [TableColumn(words("column.source")), *(TableColumn(head, number=True) for head in heads)]
    caption = words("articles.caption", count=articles.sources)
    return join(
        paragraphs(words("articles.named", named=articles.with_symbols, count=articles.articles)),
        table(words, Listing("articles", caption, columns, rows)),
        _copies(words, quality) if articles.copies else "",
    )


def _copies(words: Words, quality: Quality) -> Html:
    rows: Sequence[Sequence[object]] = [
        (
            _short(entry.title or words("copies.no_title")),
            _short(entry.domain),
            entry.articles,
            _short(entry.url_first),
            _short(entry.url_last),
        )
        for entry in quality.articles.copies
    ]
    columns = [
        TableColumn(words("column.title"), wide=True),
        TableColumn(words("column.source")),
        TableColumn(words("column.articles"), number=True),
        TableColumn(words("column.one"), wide=True),
        TableColumn(words("column.another"), wide=True),
    ]
    return table(words, Listing("copies", words("copies.caption"), columns, rows))


def _reading(words: Words, quality: Quality) -> Html:
    names = ("behind", "missing", "valid", "revisions", "band", "tick", "closed")
    limit = quality.settings.stopped_after
    return terms({words(f"column.{name}"): words(f"term.{name}", count=limit) for name in names})
