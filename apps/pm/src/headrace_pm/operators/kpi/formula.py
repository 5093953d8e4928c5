"""Formulas over counters: `100 * c101 / (c102 + {103})`, `max(c7)`, `avg(c8) * 8 / 1000`.

    sum      = product (("+" | "-") product)*
    product  = factor (("*" | "/") factor)*
    factor   = "-" factor | number | "(" sum ")" | counter | ("sum" | "avg" | "min" | "max") "(" counter ")"
    counter  = "c" digits | "{" digits "}"

A counter alone is its sum. What a formula reads are aggregates over all objects and moments of an hour or a day, so a
function takes one counter and no expression. A value that is missing makes the whole missing, and so does a division by
zero: neither is ever taken for 0. Formulas come from files of strangers: they are read by this grammar alone, and both
their length and their depth have limits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headrace.errors import CallerError

CHARS_MAX = 2_000
DEPTH_MAX = 40
COUNTERS_MAX = 50
# Each is a call within a call when a value is computed.
OPERATIONS_MAX = 200
FORMS = "write numbers, + - * / ( ), counters as c101 or {101}, and sum, avg, min, max of one counter"
FUNCTIONS = ("sum", "avg", "min", "max")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<counter>c(\d{1,10})\b|\{\s*(\d{1,10})\s*\})"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign>[-+*/()]))"
)


class FormulaError(CallerError):
    """A formula that cannot be read."""


class CounterTotals(NamedTuple):
    """What is known of one counter in one hour or day: aggregates of its values; `nulls` are rows without a value."""

    total: float
    samples: int
    least: float
    most: float
    nulls: int = 0

    def joined(self, other: CounterTotals) -> CounterTotals:
        return CounterTotals(
            self.total + other.total,
            self.samples + other.samples,
            min(self.least, other.least),
            max(self.most, other.most),
            self.nulls + other.nulls,
        )


class KpiValue(NamedTuple):
    """A value, or None and why: counters without a value, or a division by zero (also what no number can hold)."""

    value: float | None
    missing: tuple[int, ...] = ()
    undefined: bool = False


Totals = Mapping[int, CounterTotals]
Compute = Callable[[Totals], float]
_AGGREGATES: Mapping[str, Callable[[CounterTotals], float]] = {
    "sum": lambda found: found.total,
    "avg": lambda found: found.total / found.samples,
    "min": lambda found: found.least,
    "max": lambda found: found.most,
}


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula that was read; `counters` are those that it needs."""

    text: str
    counters: tuple[int, ...]
    compute: Compute

    @classmethod
    def of(cls, text: str) -> Formula:
        """`FormulaError` says what is wrong, and where."""
        if len(text) > CHARS_MAX:
            raise FormulaError(f"a formula of {len(text):,} characters is over {CHARS_MAX:,}")
        reader = _Reader(text)
        compute = reader.whole()
        if not reader.counters:
            raise FormulaError("a formula without a counter is a number", FORMS)
        if len(reader.counters) > COUNTERS_MAX:
            raise FormulaError(f"{len(reader.counters)} counters in one formula are over {COUNTERS_MAX}")
        return cls(text, tuple(sorted(reader.counters)), compute)

    def value(self, totals: Totals) -> KpiValue:
        missing = tuple(each for each in self.counters if each not in totals or not totals[each].samples)
        if missing:
            return KpiValue(None, missing)
        try:
            found = self.compute(totals)
        except (ZeroDivisionError, OverflowError):
            return KpiValue(None, undefined=True)
        return KpiValue(found) if math.isfinite(found) else KpiValue(None, undefined=True)


class _Reader:
    """Reads one formula from left to right, a method for each line of the grammar."""

    def __init__(self, text: str) -> None:
        self.counters: set[int] = set()
        self._text, self._depth, self._at = text, 0, 0
        self._operations = 0
        self._kind, self._found = "", ""
        self._next()

    def whole(self) -> Compute:
        found = self._sum()
        if self._kind:
            raise self._error(f"{self._found!r} is not expected there")
        return found

    def _sum(self) -> Compute:
        found = self._product()
        while self._found in ("+", "-"):
            found = self._joined(found, self._product)
        return found

    def _product(self) -> Compute:
        found = self._factor()
        while self._found in ("*", "/"):
            found = self._joined(found, self._factor)
        return found

    def _joined(self, left: Compute, read: Callable[[], Compute]) -> Compute:
        self._operations += 1
        if self._operations > OPERATIONS_MAX:
            raise self._error(f"it has more than {OPERATIONS_MAX} operations")
        return _computed(self._take(), left, read())

    def _factor(self) -> Compute:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._error(f"it is nested deeper than {DEPTH_MAX}")
        found = self._one()
        self._depth -= 1
        return found

    def _one(self) -> Compute:
        if self._found == "-":
            self._take()
            inner = self._factor()
            return lambda totals: -inner(totals)
        if self._found == "(":
            self._take()
            inner = self._sum()
            self._expect(")")
            return inner
        if self._kind == "number":
            number = float(self._take())
            return lambda totals: number
        if self._kind == "counter":
            return self._aggregate("sum")
        if self._kind == "word" and self._found.lower() in FUNCTIONS:
            function = self._take().lower()
            self._expect("(")
            if self._kind != "counter":
                raise self._error(f"{function} takes one counter")
            found = self._aggregate(function)
            self._expect(")")
            return found
        raise self._error(f"{self._found!r} is no part of a formula" if self._kind else "it ends too early")

    def _aggregate(self, function: str) -> Compute:
        counter = int(re.sub(r"\D", "", self._take()))
        if counter >= 1 << 31:
            raise self._error(f"{counter} is no counter: ids have 31 bits")
        self.counters.add(counter)
        aggregate = _AGGREGATES[function]
        return lambda totals: aggregate(totals[counter])

    def _expect(self, sign: str) -> None:
        if self._found != sign:
            raise self._error(f"{sign!r} is missing")
        self._take()

    def _take(self) -> str:
        taken = self._found
        self._next()
        return taken

    def _next(self) -> None:
        if not self._text[self._at :].strip():
            self._kind = self._found = ""
            return
        token = _TOKEN.match(self._text, self._at)
        if token is None:
            raise self._error(f"{self._text[self._at :].strip()[0]!r} is no part of a formula")
        self._kind = token.lastgroup or ""
        self._found = token[self._kind]
        self._at = token.end()

    def _error(self, what: str) -> FormulaError:
        return FormulaError(f"the formula cannot be read at character {min(self._at, len(self._text))}: {what}", FORMS)


def _computed(sign: str, left: Compute, right: Compute) -> Compute:
    match sign:
        case "+":
            return lambda totals: left(totals) + right(totals)
        case "-":
            return lambda totals: left(totals) - right(totals)
        case "*":
            return lambda totals: left(totals) * right(totals)
    return lambda totals: left(totals) / right(totals)
