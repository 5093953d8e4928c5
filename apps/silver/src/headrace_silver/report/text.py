"""How the report words its figures, the same in the terminal and on the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from headrace.pages import Words, plain, runs
from headrace_silver.market.notes import Note
from headrace_silver.quality.values import ABSENT, MISSING, Quality, Rejection, SymbolQuality

TEXT_CHARS_MAX = 160
NOTE_NAMES_MAX = 10
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def signed_percent(words: Words, share: float) -> str:
    return f"{'+' if share >= 0 else ''}{words.number(share * 100, 1)} %"


def counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(words: Words, seconds: int) -> str:
    """A lag in the largest unit that says something."""
    for unit_s, unit in _UNITS:
        if abs(seconds) >= unit_s:
            return words(f"lag.{unit}", value=seconds / unit_s)
    return words("lag.s", value=seconds)


def headline(words: Words, quality: Quality) -> tuple[bool, str]:
    """Whether all is well, and the sentence that says so or what is not."""
    active, late = quality.active, quality.late
    if not quality.symbols:
        return False, words("empty")
    missing = sum(entry.missing for entry in active)
    amount = {0: "none", 1: "one"}.get(len(late), "some")
    parts = (
        words(f"late.{amount}", late=len(late), count=len(active)),
        words("there", share=words.percent(quality.completeness)),
        words("refused", count=sum(entry.count for entry in quality.rejects)),
    )
    sentence = ", ".join(parts) + (words("slow") if quality.slow else "")
    return not late and not missing and not quality.slow, f"{sentence}."


def note_text(words: Words, note: Note) -> str:
    """What a note says; of a long list only the first."""
    values = {name: _listed(words, value) if isinstance(value, tuple) else value for name, value in note.values.items()}
    return words(f"note.{note.key}", **values)


def _listed(words: Words, names: Sequence[object]) -> str:
    shown = ", ".join(words.shown(name) for name in names[:NOTE_NAMES_MAX])
    rest = len(names) - NOTE_NAMES_MAX
    return words("names.more", names=shown, count=rest) if rest > 0 else shown


def spans(cells: str, days: Sequence[date], letters: str = ABSENT) -> list[tuple[date, date]]:
    """The runs of these letters, as first and last day."""
    return [(days[start], days[end - 1]) for start, end in runs(cells, letters)]


def span_text(words: Words, first: date, last: date) -> str:
    return words.day(first) if first == last else f"{words.day(first)} … {words.day(last)}"


def gaps_text(words: Words, entry: SymbolQuality, days: Sequence[date], most: int) -> str:
    """The missing days in words, the latest first, each with why."""
    gaps = [(last, words("gap.never", span=span_text(words, first, last)))
            for first, last in spans(entry.cells, days, MISSING)]  # fmt: skip
    gaps += [(day, words("gap.rejected", day=day, why=rejection_text(words, why)))
             for day, why in entry.rejections.items()]  # fmt: skip
    found = [text for _, text in sorted(gaps, reverse=True)]
    shown = ", ".join(found[:most])
    return shown if len(found) <= most else words("gaps.more", gaps=shown, count=len(found) - most)


def rejection_text(words: Words, why: Rejection) -> str:
    return words("rejection", rule=plain(why.rule, TEXT_CHARS_MAX), letter=str(why.letter))


def late_text(words: Words, entry: SymbolQuality, day: date) -> str:
    """Why a symbol has no bar for this day."""
    why = entry.rejections.get(day)
    return words("why.never") if why is None else rejection_text(words, why)


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
