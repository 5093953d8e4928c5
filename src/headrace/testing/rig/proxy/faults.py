"""What can be wrong with a line, as values, and the words a person says them in.

`str(fault)` gives the line whose words `parse` takes. Latency, bandwidth and black hole hold until they are replaced by
one of their own kind or healed; a cut is there until it has happened as often as was asked for; a reset happens now.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.core.errors import CallerError

Way = Literal["requests", "replies", "both"]
Ending = Literal["reset", "close"]
Times = int | Literal["every"]

FORMS = {
    "latency": "latency 200ms [JITTER] [requests|replies]",
    "bandwidth": "bandwidth 10k [requests|replies]",
    "reset": "reset",
    "refuse": "refuse",
    "blackhole": "blackhole [requests|replies]",
    "cut-after": "cut-after BYTES [requests|replies] [reset|close] [TIMES|every]",
    "cut-before": "cut-before TEXT [TIMES|every]",
    "cut-reply": "cut-reply TEXT [TIMES|every]",
    "heal": "heal",
}
_UNITS_S = {"ms": 0.001, "s": 1.0}
_UNITS_BYTES = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_ESCAPED = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}


@dataclass(frozen=True, slots=True)
class Latency:
    """Every byte arrives so much later, and by up to `jitter_s` more, each way; in order, and any number at once."""

    seconds: float
    jitter_s: float = 0.0
    way: Way = "both"

    def __post_init__(self) -> None:
        _check(self.seconds >= 0 and self.jitter_s >= 0, "a latency is not below zero", "latency")

    def __str__(self) -> str:
        jitter = f" {_duration(self.jitter_s)}" if self.jitter_s else ""
        return f"latency {_duration(self.seconds)}{jitter}{_way(self.way)}"


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """All connections together get so many bytes a second each way."""

    bytes_per_s: float
    way: Way = "both"

    def __post_init__(self) -> None:
        _check(self.bytes_per_s > 0, "a bandwidth is more than zero (nothing at all is a blackhole)", "bandwidth")

    def __str__(self) -> str:
        return f"bandwidth {self.bytes_per_s:.12g}{_way(self.way)}"


@dataclass(frozen=True, slots=True)
class Reset:
    """All open connections break now, on both sides, with an RST."""

    def __str__(self) -> str:
        return "reset"


@dataclass(frozen=True, slots=True)
class Refuse:
    """New connections are refused; open ones stay."""

    def __str__(self) -> str:
        return "refuse"


@dataclass(frozen=True, slots=True)
class BlackHole:
    """Nothing arrives and nobody is told. New connections are accepted and silent."""

    way: Way = "both"

    def __str__(self) -> str:
        return f"blackhole{_way(self.way)}"


@dataclass(frozen=True, slots=True)
class CutAfter:
    """A connection breaks when exactly so many bytes have passed on it, counted from when this was set."""

    byte_count: int
    way: Way = "replies"
    ending: Ending = "reset"
    times: Times = 1

    def __post_init__(self) -> None:
        _check(self.byte_count >= 0, "a cut comes after zero bytes or more", "cut-after")
        _check_times(self.times, "cut-after")

    def __str__(self) -> str:
        return f"cut-after {self.byte_count} {self.way} {self.ending}{_times(self.times)}"


@dataclass(frozen=True, slots=True)
class CutBefore:
    """The next request with this pattern does not arrive."""

    pattern: bytes
    times: Times = 1

    def __post_init__(self) -> None:
        _check(bool(self.pattern), "a cut needs a text to look for", "cut-before")
        _check_times(self.times, "cut-before")

    def __str__(self) -> str:
        return f"cut-before {_text(self.pattern)}{_times(self.times)}"


@dataclass(frozen=True, slots=True)
class CutReply:
    """The next request with this pattern arrives, and its reply does not."""

    pattern: bytes
    times: Times = 1

    def __post_init__(self) -> None:
        _check(bool(self.pattern), "a cut needs a text to look for", "cut-reply")
        _check_times(self.times, "cut-reply")

    def __str__(self) -> str:
        return f"cut-reply {_text(self.pattern)}{_times(self.times)}"


@dataclass(frozen=True, slots=True)
class Heal:
    """Not a fault but the end of all of them."""

    def __str__(self) -> str:
        return "heal"


Cut = CutAfter | CutBefore | CutReply
Fault = Latency | Bandwidth | Reset | Refuse | BlackHole | Cut | Heal


def parse(words: Sequence[str]) -> Fault:
    """The fault that these words name, as in `headrace rig break NAME latency 200ms`."""
    if not words or words[0] not in FORMS:
        said = repr(words[0]) if words else "nothing"
        raise CallerError(f"{said} is no fault", f"one of: {'; '.join(FORMS.values())}")
    reading = _Words(words[0], list(words[1:]))
    fault = _READERS[words[0]](reading)
    if reading.rest:
        raise reading.refusal(f"{reading.rest[0]!r} is too much or in the wrong place")
    return fault


class _Words:
    """The words after the first, taken from the left."""

    def __init__(self, kind: str, rest: list[str]) -> None:
        self.kind = kind
        self.rest = rest

    def refusal(self, message: str) -> CallerError:
        return CallerError(f"{self.kind}: {message}", f"the form is: {FORMS[self.kind]}")

    def next(self, what: str) -> str:
        if not self.rest:
            raise self.refusal(f"{what} is missing")
        return self.rest.pop(0)

    def seconds(self) -> float:
        return self._number("a time such as 200ms or 1.5s", _UNITS_S)

    def jitter(self) -> float:
        return self.seconds() if self.rest and self.rest[0][:1].isdigit() else 0.0

    def amount(self) -> float:
        return self._number("a number of bytes such as 1000, 10k or 1M", _UNITS_BYTES)

    def way(self, otherwise: Way) -> Way:
        found: dict[str, Way] = {"requests": "requests", "replies": "replies", "both": "both"}
        return found[self.rest.pop(0)] if self.rest and self.rest[0] in found else otherwise

    def ending(self) -> Ending:
        found: dict[str, Ending] = {"reset": "reset", "close": "close"}
        return found[self.rest.pop(0)] if self.rest and self.rest[0] in found else "reset"

    def times(self) -> Times:
        if self.rest and self.rest[0] == "every":
            self.rest.pop(0)
            return "every"
        return int(self.rest.pop(0)) if self.rest and self.rest[0].isdecimal() else 1

    def pattern(self) -> bytes:
        return _ESCAPED.sub(self._unescape, self.next("the text").encode())

    def _unescape(self, found: re.Match[bytes]) -> bytes:
        if found[1]:
            return bytes.fromhex(found[1].decode())
        if found[2] not in _LETTERS:
            raise self.refusal(f"{found[0].decode()} is no escape: there are \\n \\r \\t \\0 \\\\ and \\xHH")
        return _LETTERS[found[2]]

    def _number(self, what: str, units: dict[str, float] | dict[str, int]) -> float:
        word = self.next(what)
        split = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]*)", word)
        if split is None or split[2] not in units:
            raise self.refusal(f"{word!r} is not {what}")
        return float(split[1]) * units[split[2]]


_READERS: dict[str, Callable[[_Words], Fault]] = {
    "latency": lambda words: Latency(words.seconds(), words.jitter(), words.way("both")),
    "bandwidth": lambda words: Bandwidth(words.amount(), words.way("both")),
    "reset": lambda words: Reset(),
    "refuse": lambda words: Refuse(),
    "blackhole": lambda words: BlackHole(words.way("both")),
    "cut-after": lambda words: CutAfter(int(words.amount()), words.way("replies"), words.ending(), words.times()),
    "cut-before": lambda words: CutBefore(words.pattern(), words.times()),
    "cut-reply": lambda words: CutReply(words.pattern(), words.times()),
    "heal": lambda words: Heal(),
}


def _check(good: bool, message: str, kind: str) -> None:
    if not good:
        raise CallerError(message, f"the form is: {FORMS[kind]}")


def _check_times(times: Times, kind: str) -> None:
    _check(times == "every" or times >= 1, "a cut happens once or more often", kind)


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.12g}ms"


def _way(way: Way) -> str:
    return "" if way == "both" else f" {way}"


def _times(times: Times) -> str:
    return "" if times == 1 else f" {times}"


def _text(pattern: bytes) -> str:
    shown = (chr(code) if 32 <= code < 127 and code != 92 else f"\\x{code:02x}" for code in pattern)
    return shlex.quote("".join(shown))
