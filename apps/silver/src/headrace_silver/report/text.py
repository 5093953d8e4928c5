"""How the report words its figures, the same in the terminal and on the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date

from headrace_silver.quality.values import MISSING, Quality

TEXT_CHARS_MAX = 160
# Joiners are invisible and still part of words and of emoji.
_JOINERS = "\u200c\u200d"


def plain(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    """Text from strangers on one line: nothing in it steers a terminal or turns the direction of writing."""
    if len(text) > chars_max:
        text = f"{text[: chars_max - 1]}…"
    return "".join(letter if letter.isprintable() or letter in _JOINERS else "�" for letter in text)


def percent(share: float | None) -> str:
    """Rounded down, so that only what is complete shows as 100 %."""
    return "–" if share is None else f"{math.floor(share * 1000 + 1e-9) / 10:.1f} %"


def signed_percent(share: float) -> str:
    return f"{share * 100:+.1f} %".replace("-", "−")


def counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(seconds: int) -> str:
    """A lag in the largest unit that says something."""
    sign, seconds = ("−", -seconds) if seconds < 0 else ("", seconds)
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit_s:
            return f"{sign}{seconds / unit_s:.1f} {unit}"
    return f"{sign}{seconds} s"


def headline(quality: Quality) -> tuple[bool, str]:
    """Whether all is well, and the sentence that says so or what is not."""
    active, late = quality.active, quality.late
    if not quality.symbols:
        return False, "There is no bar yet."
    missing = sum(entry.missing for entry in active)
    fresh = f"{len(late):,} of {counted(len(active), 'symbol')} {'is' if len(late) == 1 else 'are'} late"
    if not late:
        fresh = f"None of {counted(len(active), 'symbol')} is late"
    gaps = f"{percent(quality.completeness)} of the expected bars are there"
    refused = sum(entry.count for entry in quality.rejects)
    tail = f"{counted(refused, 'task was', 'tasks were')} rejected"
    slow = "; the scrapers are asked to slow down" if quality.slow else ""
    return not late and not missing and not quality.slow, f"{fresh}, {gaps}, {tail}{slow}."


def spans(cells: str, days: Sequence[date], letter: str = MISSING) -> list[tuple[date, date]]:
    """The runs of one letter, as first and last day."""
    return [(days[start], days[end - 1]) for start, end in runs(cells, letter)]


def runs(cells: str, letters: str) -> list[tuple[int, int]]:
    """Where any of these letters stand without a break: start, and the place after the end."""
    found, start = [], None
    for place, cell in enumerate(cells):
        if cell in letters:
            start = place if start is None else start
        elif start is not None:
            found.append((start, place))
            start = None
    return found if start is None else [*found, (start, len(cells))]


def span_text(first: date, last: date) -> str:
    return first.isoformat() if first == last else f"{first.isoformat()} … {last.isoformat()}"


def gaps_text(cells: str, days: Sequence[date], most: int) -> str:
    """The missing days in words, the latest first."""
    found = spans(cells, days)[::-1]
    rest = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(span_text(*span) for span in found[:most]) + rest


def binned(quality: Quality, bins_max: int) -> tuple[int, dict[str, list[int]]]:
    """Rejects of each rule in equal runs of days from the window's first to today: the days in one, and the counts."""
    first = quality.days[0]
    last = max((entry.day for entry in quality.rejects), default=quality.last_closed)
    length = max((last - first).days, (quality.last_closed - first).days) + 1
    width = -(-length // bins_max)
    series = {rule: [0] * -(-length // width) for rule in quality.rejects_by_rule}
    for entry in quality.rejects:
        series[entry.rule][(entry.day - first).days // width] += entry.count
    return width, series
