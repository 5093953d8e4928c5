"""Error messages by what they have in common: names, numbers and paths differ from file to file, the fault does not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

_UNKNOWN = re.compile(r"(Unknown NE: ).*", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_PATH = re.compile(r"(?<![\w<])/\S+")
_NUMBER = re.compile(r"\b(?:0x)?[0-9a-f]*\d[0-9a-f,.]*\b", re.IGNORECASE)
MESSAGE_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Files that have the same fault, and one of them as it says it."""

    fault: str
    example: str
    state: str
    count: int
    first_at: datetime
    last_at: datetime
    file_name: str


def fault_of(message: str) -> str:
    """A message without what differs: names in quotes, paths and numbers become `…`."""
    short = _UNKNOWN.sub(r"\1…", message.strip())
    for pattern in (_QUOTED, _PATH, _NUMBER):
        short = pattern.sub("…", short)
    return short[:MESSAGE_CHARS_MAX]


def grouped(rows: Iterable[tuple[str, str, int, datetime, datetime, str]]) -> tuple[ErrorGroup, ...]:
    """Rows of (message, state, count, first, last, file) by fault and state, the most frequent first."""
    found: dict[tuple[str, str], ErrorGroup] = {}
    for message, state, count, first, last, name in rows:
        key = (fault_of(message), state)
        new = ErrorGroup(key[0], message.strip()[:MESSAGE_CHARS_MAX], state, count, first, last, name)
        found[key] = _joined(found[key], new) if key in found else new
    return tuple(sorted(found.values(), key=lambda each: (-each.count, each.fault)))


def _joined(one: ErrorGroup, other: ErrorGroup) -> ErrorGroup:
    later = one if one.last_at >= other.last_at else other
    return ErrorGroup(
        one.fault,
        one.example,
        one.state,
        one.count + other.count,
        min(one.first_at, other.first_at),
        later.last_at,
        later.file_name,
    )
