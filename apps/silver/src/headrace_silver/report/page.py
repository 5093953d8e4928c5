"""The quality report as one HTML file: no script, nothing from outside, light and dark, for screens, phones and paper.

Symbols, titles and addresses come from strangers: whatever is not `Html` is escaped where it enters the page, and the
page forbids itself to load or run anything.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from datetime import date
from html import escape
from importlib import resources
from itertools import chain, groupby, islice
from pathlib import Path

from headrace.pages import Html
from headrace_silver.quality.values import CELL_WORDS, Quality, SymbolQuality
from headrace_silver.records.rules import RULES
from headrace_silver.report.figures import Figure, Strips, bars, months
from headrace_silver.report.text import (
    binned,
    counted,
    duration,
    gaps_text,
    headline,
    percent,
    plain,
    signed_percent,
    span_text,
)

ROWS_OPEN = 100
NAMES_MAX = 400
BREAKS_MAX = 500
BINS = 52
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_SECTIONS = {
    "late": "Late",
    "days": "Day by day",
    "symbols": "Symbols",
    "rejects": "Rejects",
    "bands": "Price bands",
    "articles": "Articles",
    "reading": "How to read it",
}


def write_html(quality: Quality, path: Path) -> None:
    """Write the page; whoever reads the file sees the old one or the whole new one."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            for piece in page(quality):
                file.write(piece)
        # A temporary file is private; a report is like any file that the user makes.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def page(quality: Quality) -> Iterable[str]:
    """The pieces of the page in order."""
    style = (resources.files(__package__) / "page.css").read_text("utf-8")
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title in _SECTIONS.items())
    good, sentence = headline(quality)
    made = quality.made_at.strftime("%Y-%m-%d %H:%M UTC")
    window = f"{quality.days[0]} to {quality.last_closed}, {counted(len(quality.days), 'trading day')}"
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" '
        f'content="light dark"><link rel="icon" href="data:,"><title>Silver quality {quality.last_closed}</title>'
        f"<style>{style}</style></head><body><header><h1>Silver quality report</h1>"
        f'<p class="headline {"good" if good else "bad"}">{"✓" if good else "!"} {escape(sentence)}</p>'
        f'<p>{window}. Made {made}.</p><nav aria-label="Sections">{links}</nav></header><main>'
    )
    yield _tiles(quality)
    yield _notes(quality)
    yield from chain(_late(quality), _heatmap(quality), _symbols(quality), _rejects(quality))
    yield from chain(_bands(quality), _articles(quality))
    yield _reading(quality)
    yield "</main></body></html>\n"


def _section(name: str, *pieces: str) -> str:
    return f'<section id="{name}"><h2>{_SECTIONS[name]}</h2>{"".join(pieces)}</section>\n'


def _cell(value: object) -> str:
    match value:
        case Html():
            return value
        case int():
            return f"{value:,}"
        case date():
            return f"<time>{value.isoformat()}</time>"
    return escape(plain(str(value)))


def _table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]], kind: str = "") -> Iterable[str]:
    """A table that scrolls by itself if it is too wide; the first cell of a row is its heading, numbers lean right."""
    waiting = iter(rows)
    first_row = next(waiting, ())
    leaning = [isinstance(value, int | Figure) for value in first_row]
    heads = "".join(
        f'<th scope="col"{" class=n" if leans else ""}>{_cell(heading)}</th>'
        for heading, leans in zip(headings, leaning, strict=True)
    )
    yield (
        f'<div class="scroll {kind}" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>\n"
    )
    for first, *rest in chain([first_row], waiting):
        # End tags of cells and rows may be left out, and there are thousands of them.
        cells = "".join(f"<td{' class=n' if isinstance(value, int | Figure) else ''}>{_cell(value)}" for value in rest)
        yield f'<tr><th scope="row">{_cell(first)}{cells}\n'
    yield "</tbody></table></div>"


def _long_table(
    caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]], whole: int, kind: str
) -> Iterable[str]:
    """The first rows, and the others behind a line that opens."""
    waiting = iter(rows)
    yield from _table(caption, headings, islice(waiting, ROWS_OPEN), kind)
    if whole > ROWS_OPEN:
        yield f"<details><summary>{counted(whole - ROWS_OPEN, 'more symbol')}</summary>"
        yield from _table(f"{caption}, continued", headings, waiting, kind)
        yield "</details>"


def _tiles(quality: Quality) -> str:
    active = quality.active
    refused = sum(entry.count for entry in quality.rejects)
    figures = (
        ("Symbols", f"{len(active):,}", f"trading, {len(quality.stopped):,} stopped"),
        ("Late", f"{len(quality.late):,}", f"no bar for <time>{quality.last_closed}</time>"),
        ("Complete", percent(quality.completeness), f"{sum(entry.missing for entry in active):,} bars missing"),
        ("Revisions", f"{sum(entry.revisions for entry in quality.symbols):,}", "bars overwritten with other values"),
        ("Rejected", f"{refused:,}", counted(len(quality.rejects_by_rule), "rule or reason", "rules or reasons")),
        ("Band warnings", f"{len(quality.band_breaks):,}", "legitimate after corporate actions"),
        ("Articles", f"{quality.articles.articles:,}", counted(quality.articles.sources, "source")),
        (
            "Probable copies",
            f"{quality.articles.copies_extra:,}",
            f"of {counted(quality.articles.copy_groups, 'text')}",
        ),
    )
    tiles = "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd><dd class=more>{more}</dd></div>" for name, value, more in figures
    )
    return f'<dl class="tiles">{tiles}</dl>\n'


def _notes(quality: Quality) -> str:
    if not quality.notes:
        return ""
    entries = "".join(f"<li>{escape(plain(note, 1_000))}</li>" for note in quality.notes)
    return f'<aside aria-label="Notes"><ul>{entries}</ul></aside>\n'


def _late(quality: Quality) -> Iterable[str]:
    limit = quality.settings.stopped_after
    text = f"<p>Every symbol that trades has its bar for {quality.last_closed}.</p>"
    if quality.late:
        groups = groupby(quality.late, key=lambda entry: (entry.last_day, entry.behind))
        rows = ((day, behind, _names(entries)) for (day, behind), entries in groups)
        caption = f"Symbols without a bar for {quality.last_closed}, the last day whose session is over"
        text = "".join(_table(caption, ("Last bar", "Days behind", "Symbols"), rows))
    if quality.stopped:
        text += f"<p>Stopped, no bar for more than {limit} trading days: {_names(quality.stopped)}.</p>"
    yield _section("late", text)


def _names(entries: Iterable[SymbolQuality]) -> Html:
    names = [escape(plain(entry.symbol)) for entry in entries]
    rest = f" and {len(names) - NAMES_MAX:,} more" if len(names) > NAMES_MAX else ""
    return Html(", ".join(names[:NAMES_MAX]) + rest)


def _heatmap(quality: Quality) -> Iterable[str]:
    keys = "".join(
        f'<li><svg viewBox="0 0 1 10" preserveAspectRatio="none" aria-hidden="true"><path class="p" '
        f'd="M0 5h1"/>{_key(letter)}</svg>{word}</li>'
        for letter, word in CELL_WORDS.items()
    )
    strips = Strips(quality.days)
    entries = [entry for entry in (*quality.active, *quality.stopped) if entry.expected]
    rows = ((entry.symbol, strips.strip(entry), Figure(percent(entry.completeness))) for entry in entries)
    caption = "One row per symbol, one column per trading day; symbols with trouble come first"
    yield f'<section id="days"><h2>{_SECTIONS["days"]}</h2><ul class="key">{keys}</ul>'
    if entries:
        yield from _long_table(caption, ("Symbol", months(quality.days), "Complete"), rows, len(entries), "heat")
    yield "</section>\n"


def _key(letter: str) -> str:
    heights = {"m": "M0 0h1v10h-1z", "r": "M0 5h1v5h-1z", "w": "M0 0h1v5h-1z"}
    return f'<path class="{letter}" d="{heights[letter]}"/>' if letter in heights else ""


def _symbols(quality: Quality) -> Iterable[str]:
    entries = [*quality.active, *quality.stopped]
    headings = ("Symbol", "Exchange", "First bar", "Last bar", "Behind", "Expected", "Present", "Missing", "Complete",
                "Rejected", "Valid", "Revisions", "Band", "Tick", "Closed days", "Gaps, latest first")  # fmt: skip
    rows = (
        (
            entry.symbol, entry.exchange, entry.first_day, entry.last_day,
            Figure("stopped") if entry.stopped else entry.behind, entry.expected, entry.present, entry.missing,
            Figure(percent(entry.completeness)), entry.rejects, Figure(percent(entry.validity)), entry.revisions,
            entry.band_days, entry.tick_days, entry.closed_days, gaps_text(entry.cells, quality.days, 3),
        )
        for entry in entries
    )  # fmt: skip
    yield f'<section id="symbols"><h2>{_SECTIONS["symbols"]}</h2>'
    if entries:
        caption = "Freshness, completeness, validity and revisions; symbols with trouble come first"
        yield from _long_table(caption, headings, rows, len(entries), "wide")
    yield "</section>\n"


def _rejects(quality: Quality) -> Iterable[str]:
    if not quality.rejects:
        yield _section("rejects", "<p>Nothing was rejected.</p>")
        return
    sentences = {rule.id: rule.sentence for rule in RULES}
    width, series = binned(quality, BINS)
    rows = (
        (rule, count, max(series[rule]), bars(series[rule], f"{rule} over time, at most {max(series[rule]):,}"),
         sentences.get(rule, "no rule: the reason of the letter"))
        for rule, count in quality.rejects_by_rule.items()
    )  # fmt: skip
    span = span_text(quality.days[0], quality.made_at.date())
    caption = f"Tasks rejected, {span}; {counted(width, 'day')} per column, each rule on its own scale"
    headings = ("Rule", "Tasks", "Most", "Over time", "What it asks")
    yield _section("rejects", *_table(caption, headings, rows, "rules"))


def _bands(quality: Quality) -> Iterable[str]:
    if not quality.band_breaks:
        yield _section("bands", "<p>No bar left the daily band of its exchange.</p>")
        return
    latest = sorted(quality.band_breaks, key=lambda entry: (entry.day, entry.symbol), reverse=True)[:BREAKS_MAX]
    rows = (
        (
            entry.symbol,
            entry.exchange,
            entry.day,
            *(Figure(f"{price:,.10g}") for price in prices),
            Figure(signed_percent(entry.change)),
        )
        for entry in latest
        for prices in [(entry.reference, entry.low, entry.high)]
    )
    headings = ("Symbol", "Exchange", "Day", "Reference", "Low", "High", "Farthest")
    which = f"the latest {BREAKS_MAX}" if len(quality.band_breaks) > BREAKS_MAX else "all of them"
    caption = f"Bars outside the daily band, {which}; prices × multiplier"
    yield _section("bands", *_table(caption, headings, rows))


def _articles(quality: Quality) -> Iterable[str]:
    articles = quality.articles
    if not articles.articles:
        yield _section("articles", "<p>There is no article in the window.</p>")
        return
    rows = (
        (source.domain, source.articles, source.vi, source.en, source.unknown, source.unstated,
         Figure(duration(source.lag_s_median)), Figure(duration(source.lag_s_95)))
        for source in articles.largest
    )  # fmt: skip
    headings = ("Source", "Articles", "vi", "en", "unknown", "not stated", "Lag, median", "Lag, 95 %")
    caption = f"The largest of {counted(articles.sources, 'source')}; lag from publication to first sight"
    told = f"<p>{articles.with_symbols:,} of {articles.articles:,} articles name a symbol.</p>"
    copies: Iterable[str] = ()
    if articles.copies:
        listed = (
            (entry.title or "(no title)", entry.domain, entry.articles, entry.url_first, entry.url_last)
            for entry in articles.copies
        )
        names = ("Title", "Source", "Articles", "One address", "Another")
        copies = _table("Probable copies: one source, one content, several addresses", names, listed, "copies")
    yield _section("articles", told, *_table(caption, headings, rows), *copies)


def _reading(quality: Quality) -> str:
    limit = quality.settings.stopped_after
    terms = {
        "Behind": "closed trading days after the last bar; a session is over at 15:00 in Vietnam.",
        "Expected": "trading days of the window since the symbol's first bar, until the last closed day; for one "
        f"that stopped (more than {limit} days without a bar) until its last bar.",
        "Valid": "stored bars against stored and rejected ones, as far as a dead letter names its symbol.",
        "Revisions": "how often a stored bar was overwritten with another price, volume, currency or multiplier.",
        "Band": "days on which the range left the daily limits around the price before (HOSE ±7 %, HNX ±10 %, "
        "UPCoM ±15 %; wider after a long suspension). Dividends and splits do that legitimately. Only prices in "
        "VND are looked at, multiplied by their price_multiplier.",
        "Tick": "days with a price between the steps of the exchange. Adjusted prices do that every day.",
        "Closed days": "bars on days when the exchanges were closed.",
    }
    entries = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in terms.items())
    return _section("reading", f'<dl class="terms">{entries}</dl>')
