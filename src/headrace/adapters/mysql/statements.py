"""Statements of an application taken apart, and ours from the `.sql` files beside this module.

A statement has `:name` for values. It is sent with the values written into it, or with a mark for each to be prepared;
an INSERT of one row by VALUES can be written for many.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

from headrace.core.claims import Refused
from headrace.core.placeholders import STATEMENTS_KEPT, pyformat

_NAME = re.compile(r"^-- ([a-z_]+)\n", re.MULTILINE)
_PLACE = re.compile(r"%%|%s|%\((\w+)\)s")
# Where a value stands, in a text whose own characters never are this one.
_MARK = "\0"
# Two minuses are a remark before a space only, and what follows /*! or /*M! is none: servers run it.
_UNSPOKEN = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--(?=[\x00-\x20\x7f]|\Z)[^\n]*|#[^\n]*|/\*(?!M?!).*?\*/", re.DOTALL
)
_GROUP = re.compile(r"\bVALUES?\s*\(", re.IGNORECASE)
_ALLOWED = frozenset({"insert", "update", "delete", "replace", "select", "with"})
_BULK = frozenset({"insert", "update", "delete", "replace"})
_RETURNS = re.compile(r"\bRETURNING\b", re.IGNORECASE)
# The bulk command takes no result, and no INSERT … SELECT.
_NOT_IN_BULK = re.compile(r"\b(RETURNING|SELECT|JOIN)\b", re.IGNORECASE)
_OURS = re.compile(r"\bheadrace_\w+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The values of one row in an INSERT: what stands around them, and the rest of the statement."""

    head: str
    pieces: tuple[str, ...]
    tail: str


@dataclass(frozen=True, slots=True)
class Spelled:
    """A statement: `pieces` around the values, whose `names` may come several times. `group` if it inserts one row and
    all its values are there; `in_bulk` if the bulk command may take it."""

    pieces: tuple[str, ...]
    names: tuple[str, ...]
    group: RowGroup | None
    in_bulk: bool

    @property
    def marked(self) -> str:
        """To be prepared."""
        return "?".join(self.pieces)


@lru_cache(STATEMENTS_KEPT)
def spelled(text: str) -> Spelled:
    """Take a statement apart."""
    # Without what ends it, so that others can be sent behind it.
    written = pyformat("\n;\n".join(commands_of(text))).text
    pieces, names, at, piece = list[str](), list[str](), 0, ""
    for place in _PLACE.finditer(written):
        piece += written[at : place.start()]
        at = place.end()
        if place[0] == "%%":
            piece += "%"
        else:
            pieces.append(piece)
            names.append(place[1] or "")
            piece = ""
    pieces.append(piece + written[at:])
    whole = _MARK.join(pieces)
    in_bulk = _verb(whole) in _BULK and bool(names) and not _NOT_IN_BULK.search(_bare(whole))
    return Spelled(tuple(pieces), tuple(names), _group(whole), in_bulk)


def check_statement(text: str) -> None:
    """Refuse what is not a change of the application's own tables. Definitions are: they would end the transaction."""
    if (verb := _verb(text)) not in _ALLOWED:
        raise Refused(f"{verb.upper() or 'nothing'} has no place in a transaction that is not yours")
    if found := _OURS.search(_bare(text)):
        raise Refused(f"{found[0]} belongs to headrace")
    if len(commands_of(text)) > 1:
        raise Refused("it is more than one statement")


def belongs_to_us(text: str) -> str:
    """A table of ours that a text speaks of, or nothing."""
    found = _OURS.search(_bare(text))
    return found[0] if found else ""


def commands_of(text: str) -> list[str]:
    """The statements of a script: the server takes one at a time."""
    ends = [place.start() for place in re.finditer(";", _bare(text))]
    begins = [0, *(end + 1 for end in ends)]
    found = [text[begin:end].strip() for begin, end in zip(begins, [*ends, len(text)], strict=True)]
    return [each for each in found if _bare(each).strip()]


def is_definition(text: str) -> bool:
    """Whether the server commits it by itself."""
    return _verb(text) not in _ALLOWED


@cache
def own_statements() -> dict[str, str]:
    """All of ours by name."""
    parts = _NAME.split((resources.files(__package__) / "sql" / "tables.sql").read_text("utf-8"))
    return dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))


def _bare(text: str) -> str:
    """Without what is quoted or said to readers, every character in its place."""
    return _UNSPOKEN.sub(lambda found: " " * len(found[0]), text)


def _verb(text: str) -> str:
    words = _bare(text).strip("( \t\r\n;").split(None, 1)
    return words[0].strip("(;").lower() if words else ""


def _group(whole: str) -> RowGroup | None:
    bare = _bare(whole)
    found = _GROUP.search(bare) if _verb(whole) in ("insert", "replace") else None
    if found is None:
        return None
    depth, end = 1, found.end()
    while depth and end < len(bare):
        depth += {"(": 1, ")": -1}.get(bare[end], 0)
        end += 1
    head, group, tail = whole[: found.end() - 1], whole[found.end() - 1 : end], whole[end:]
    is_one_row = not depth and not bare[end:].lstrip().startswith(",")
    if not is_one_row or _MARK in head or _MARK in tail or _RETURNS.search(bare[end:]):
        return None
    return RowGroup(head, tuple(group.split(_MARK)), tail)
