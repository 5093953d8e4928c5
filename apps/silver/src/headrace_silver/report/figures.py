"""Pictures of the page: strips of days and bars of counts, as small inline SVG that needs no script.

A strip is stretched to the width of its column, one unit per trading day. States differ in shape as well as in colour:
what is missing takes the full height, a revision the lower half, a warning the upper half of the strip.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from html import escape

from headrace.pages import Html
from headrace_silver.quality.values import (
    CELL_WORDS,
    MISSING,
    PRESENT,
    REVISED,
    WARNED,
    SymbolQuality,
)
from headrace_silver.report.text import counted, runs, span_text

# So many marks have a text of their own under the pointer; a page with more says it per row only.
TITLES_MAX = 15_000
_SHAPES = {MISSING: (0, 10), REVISED: (5, 5), WARNED: (0, 5)}


class Figure(Html):
    """A figure in words of our own: it leans right like a number."""

    __slots__ = ()


class Strips:
    """Makes the strips of one page and keeps the number of its marks within bounds."""

    def __init__(self, days: Sequence[date]) -> None:
        self._days = days
        self._titles = 0

    def strip(self, entry: SymbolQuality) -> Html:
        """One symbol through the days of the window."""
        parts = [f'<path class="p" d="{_line(runs(entry.cells, PRESENT + REVISED + WARNED), 5)}"/>']
        for letter, (top, height) in _SHAPES.items():
            found = runs(entry.cells, letter)
            if not found:
                continue
            self._titles += len(found)
            if self._titles > TITLES_MAX:
                parts.append(f'<path class="{letter} h{height}" d="{_line(found, top + height / 2)}"/>')
                continue
            for run in found:
                title = f"<title>{self._title(letter, run)}</title>"
                parts.append(f'<path class="{letter}" d="{_box(run, top, height)}">{title}</path>')
        label = escape(f"{entry.symbol}: {describe(entry)}")
        return Html(
            f'<svg class="strip" viewBox="0 0 {len(entry.cells)} 10" preserveAspectRatio="none" role="img" '
            f'aria-label="{label}">{"".join(parts)}</svg>'
        )

    def _title(self, letter: str, run: tuple[int, int]) -> str:
        start, end = run
        span = span_text(self._days[start], self._days[end - 1])
        return f"{span}: {CELL_WORDS[letter]}" + (f" ({end - start} days)" if end - start > 1 else "")


def describe(entry: SymbolQuality) -> str:
    """A row of the heat-map in words."""
    counts = {word: entry.cells.count(letter) for letter, word in CELL_WORDS.items() if letter != PRESENT}
    told = [f"{count} {word}" for word, count in counts.items() if count]
    return ", ".join([f"{entry.present} of {counted(entry.expected, 'day')} present", *told])


def months(days: Sequence[date]) -> Html:
    """Names of months above the strips, placed by share of the width; the first of a year is its number."""
    starts = [place for place, day in enumerate(days) if place and day.month != days[place - 1].month]
    every = max(1, -(-len(starts) // 13))
    labels = [
        f'<span style="left:{place / len(days):.2%}">'
        f"{days[place].strftime('%Y' if days[place].month == 1 else '%b')}</span>"
        for place in starts[::every]
    ]
    return Html(f'<div class="months" aria-hidden="true">{"".join(labels)}</div>')


def bars(counts: Sequence[int], label: str) -> Html:
    """Counts over time, each column as high as its share of the highest."""
    most = max(counts, default=0) or 1
    columns = "".join(
        f"M{place} 20v-{max(20 * count / most, 1.5):.3g}h.8V20z" for place, count in enumerate(counts) if count
    )
    return Html(
        f'<svg class="bars" viewBox="0 0 {len(counts)} 20" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}"><path d="{columns}"/></svg>'
    )


def _box(run: tuple[int, int], top: int, height: int) -> str:
    start, end = run
    return f"M{start} {top}h{end - start}v{height}h-{end - start}z"


def _line(found: Sequence[tuple[int, int]], middle: float) -> str:
    """Runs as one broken line, as thick as the strip is high: half the text of boxes."""
    pieces: list[str] = []
    pen = 0
    for start, end in found:
        pieces.append(f"m{start - pen} 0h{end - start}" if pieces else f"M{start} {middle:g}h{end - start}")
        pen = end
    return "".join(pieces)
