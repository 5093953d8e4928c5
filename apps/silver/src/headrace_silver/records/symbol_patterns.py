"""The pattern that a symbol matches from end to end, matched in time that is linear in the symbol.

Python's `re` tries one way after another, and with `^(A+)+$` the ways double with each letter: one symbol of forty
letters stops a worker for days, and no signal reaches it there. So `re` only reads a pattern and judges single
characters; a match is a walk through the pattern's positions, all ways at once (Glushkov's automaton: a position per
character of the pattern, and which may follow which). The states met on the way are remembered. RE2 would do the same,
but has no wheels for musl and none for the newest Python, and would not compile there without its C++ libraries.

What needs more than positions is refused when the setting is read: looking around, back references, atomic groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

PATTERN_CHARS_MAX = 500
# `[A-Z]{3,7}` has seven. A step looks at each of them at most once.
POSITIONS_MAX = 500
# Every symbol of the market many times over; a longer text is no symbol that comes again.
SYMBOLS_REMEMBERED_MAX = 65_536
SYMBOL_REMEMBERED_CHARS_MAX = 32
STEPS_REMEMBERED_MAX = 65_536

_FLAGS = re.compile(r"\(\?[aisu]+\)")
_TOKEN = re.compile(
    r"(?P<open>\((?:\?:|\?P<\w+>|(?!\?)))|(?P<close>\))|(?P<choice>\|)|(?P<start>\^|\\A)|(?P<end>\$|\\[Zz])"
    r"|(?P<times>(?:[*+?]|\{(?:[0-9]+(?:,[0-9]*)?|,[0-9]*)\})\??)"
    r"|(?P<character>\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\[^xuUN0-9bBAZz]"
    r"|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\()\[|*+?{^$])",
    re.DOTALL,
)
_TIMES = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class NotLinear(ValueError):
    """A regular expression that this automaton cannot be, and why."""


@dataclass(frozen=True, slots=True)
class PartAnchor:
    """The start or the end of the symbol."""

    is_start: bool


@dataclass(frozen=True, slots=True)
class PartSequence:
    """One part after another."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class PartChoice:
    """One of several parts."""

    options: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class RepeatedPart:
    """A part at least `low` and at most `high` times, None: without end."""

    part: Part
    low: int
    high: int | None


# A text is what stands for one character: itself, an escape or a class.
Part: TypeAlias = str | PartAnchor | PartSequence | PartChoice | RepeatedPart


@dataclass(frozen=True, slots=True)
class PartSpan:
    """A part as sets of positions, one bit each: where it may begin and end, and whether it may be empty."""

    first: int
    last: int
    is_empty: bool

    def then(self, other: PartSpan, follow: list[int]) -> PartSpan:
        for position in _bits(self.last):
            follow[position] |= other.first
        first = self.first | (other.first if self.is_empty else 0)
        last = other.last | (self.last if other.is_empty else 0)
        return PartSpan(first, last, self.is_empty and other.is_empty)


NO_POSITION = PartSpan(0, 0, True)
BEFORE_ALL = 1


class SymbolPattern:
    """A pattern, ready to match. Position 0 stands before the first character."""

    def __init__(self, text: str) -> None:
        """Raises `re.error` for what is no regular expression, and `NotLinear` for what is too much of one."""
        if len(text) > PATTERN_CHARS_MAX or not text.isprintable():
            raise NotLinear(f"a pattern has at most {PATTERN_CHARS_MAX} characters that can be printed")
        re.compile(text)
        self.text = text
        flags = _FLAGS.match(text)
        self._flags = flags[0] if flags else ""
        self._characters = [""]
        self._follow = [0]
        whole = _parsed(text, len(self._flags))
        _check_anchors(whole, True, True)
        span = self._span(whole)
        self._follow[0] = span.first
        self._ends = span.last | (BEFORE_ALL if span.is_empty else 0)
        self._judges = [re.compile(self._flags + each).fullmatch for each in self._characters]
        self._known: dict[str, bool] = {}
        self._steps: dict[tuple[int, str], int] = {}

    def matches(self, symbol: str) -> bool:
        """Whether the symbol matches from end to end."""
        known = self._known.get(symbol)
        if known is not None:
            return known
        found = self._walk(symbol)
        if len(symbol) <= SYMBOL_REMEMBERED_CHARS_MAX:
            if len(self._known) >= SYMBOLS_REMEMBERED_MAX:
                self._known.clear()
            self._known[symbol] = found
        return found

    def _walk(self, symbol: str) -> bool:
        state = BEFORE_ALL
        for character in symbol:
            following = self._steps.get((state, character))
            state = self._step(state, character) if following is None else following
            if not state:
                return False
        return state & self._ends != 0

    def _step(self, state: int, character: str) -> int:
        reached = 0
        for position in _bits(state):
            reached |= self._follow[position]
        following = sum(1 << position for position in _bits(reached) if self._judges[position](character))
        if len(self._steps) >= STEPS_REMEMBERED_MAX:
            self._steps.clear()
        self._steps[state, character] = following
        return following

    def _span(self, part: Part) -> PartSpan:
        match part:
            case str():
                if len(self._characters) > POSITIONS_MAX:
                    raise NotLinear(f"written out, it has more than {POSITIONS_MAX} characters")
                self._characters.append(part)
                self._follow.append(0)
                here = 1 << (len(self._characters) - 1)
                return PartSpan(here, here, False)
            case PartAnchor():
                return NO_POSITION
            case PartSequence(parts):
                whole = NO_POSITION
                for each in parts:
                    whole = whole.then(self._span(each), self._follow)
                return whole
            case PartChoice(options):
                spans = [self._span(each) for each in options]
                first = last = 0
                for span in spans:
                    first, last = first | span.first, last | span.last
                return PartSpan(first, last, any(span.is_empty for span in spans))
            case RepeatedPart():
                return self._repeated(part)

    def _repeated(self, repeated: RepeatedPart) -> PartSpan:
        """Copies in a row; the last of those without end leads back to itself."""
        low, high = repeated.low, repeated.high
        whole = NO_POSITION
        for number in range(max(low, 1) if high is None else high):
            copy = self._span(repeated.part)
            if not copy.first:
                # Nothing, however often.
                return NO_POSITION
            if high is None and number >= low - 1:
                copy = copy.then(copy, self._follow)
            whole = whole.then(PartSpan(copy.first, copy.last, copy.is_empty or number >= low), self._follow)
        return whole


@lru_cache(maxsize=16)
def symbol_pattern(text: str) -> SymbolPattern:
    """The pattern of a text, made once; see `SymbolPattern`."""
    return SymbolPattern(text)


def _bits(positions: int) -> Iterator[int]:
    while positions:
        lowest = positions & -positions
        yield lowest.bit_length() - 1
        positions ^= lowest


def _parsed(text: str, start: int) -> Part:
    """The parts of a pattern that `re` has read without complaint: its brackets are known to fit."""
    # What is open: the options that are complete, and the parts of the one that is being read.
    open_groups: list[tuple[list[Part], list[Part]]] = [([], [])]
    repeated_until = -1
    while start < len(text):
        token = _TOKEN.match(text, start)
        options, parts = open_groups[-1]
        if token is None or (token.lastgroup == "times" and (not parts or start == repeated_until)):
            raise NotLinear(f"{text[start : start + 3]!r} at character {start + 1} is not among what it may have")
        start = token.end()
        match token.lastgroup:
            case "open":
                open_groups.append(([], []))
            case "close":
                open_groups.pop()
                open_groups[-1][1].append(_choice(options, parts))
            case "choice":
                options.append(PartSequence(tuple(parts)))
                parts.clear()
            case "start" | "end":
                parts.append(PartAnchor(token.lastgroup == "start"))
            case "times":
                parts.append(RepeatedPart(parts.pop(), *_times(token[0])))
                repeated_until = start
            case _:
                parts.append(token[0])
    return _choice(*open_groups[0])


def _choice(options: list[Part], parts: list[Part]) -> Part:
    last = PartSequence(tuple(parts))
    return PartChoice((*options, last)) if options else last


def _times(text: str) -> tuple[int, int | None]:
    # A match from end to end is the same whether the longest or the shortest is tried first.
    text = text[:-1] if len(text) > 1 and text[-1] == "?" else text
    if text in _TIMES:
        return _TIMES[text]
    low, comma, high = text[1:-1].partition(",")
    return int(low or 0), int(high) if high else None if comma else int(low)


def _check_anchors(part: Part, is_first: bool, is_last: bool) -> None:
    """An anchor may stand where it says nothing new, and nowhere else."""
    match part:
        case PartAnchor(is_start) if not (is_first if is_start else is_last):
            raise NotLinear(f"{'^' if is_start else '$'} stands in the middle")
        case PartSequence(parts):
            for place, each in enumerate(parts):
                before, after = parts[:place], parts[place + 1 :]
                _check_anchors(
                    each,
                    is_first and all(isinstance(other, PartAnchor) for other in before),
                    is_last and all(isinstance(other, PartAnchor) for other in after),
                )
        case PartChoice(options):
            for each in options:
                _check_anchors(each, is_first, is_last)
        case RepeatedPart(inner):
            _check_anchors(inner, False, False)
