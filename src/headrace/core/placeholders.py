"""Placeholders of SQL statements, written one way for every database: `?` in order, or `:name`.

SQLite takes them as they are; psycopg wants `%s` and `%(name)s`, and every other percent sign doubled. What only
looks like a placeholder is left alone: quoted text and names, comments, dollar quotes, casts (`::`), `:=`. A question
mark that is an operator of PostgreSQL is written twice: `??` is `?`, `??|` is `?|`. A slice of an array wants a space
after its colon (`[1: n]`), because `:n` is a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Values = Mapping[str, Any] | Sequence[Any]
STATEMENTS_KEPT = 1_000

_OPENS_COMMENT = "/*"
_COMMENT_EDGE = re.compile(r"/\*|\*/")
# An E before a quote, or a dollar, opens a quotation only where no name ends.
_TOKEN = re.compile(
    r"""
      (?<![\w$]) [eE] '(?:[^'\\]|\\.|'')*'
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | --[^\n]*
    | (?P<comment> /\*)
    | (?<![\w$]) \$(?P<tag>(?:[^\W\d]\w*)?)\$ .*? \$(?P=tag)\$
    | :: | :=
    | (?P<twice> \?\?)
    | (?P<numbered> \?\d+)
    | (?P<position> \?)
    | : (?P<name> [^\W\d]\w*)
    | %
    """,
    re.VERBOSE | re.DOTALL,
)


class WrongPlaceholders(ValueError):
    """A statement and its values do not belong together."""


@dataclass(frozen=True, slots=True)
class Pyformat:
    """A statement in the driver's notation, and which values it takes."""

    text: str
    positions: int
    names: frozenset[str]

    def check(self, values: Values) -> None:
        """`WrongPlaceholders` unless these values are what the statement takes."""
        if self.positions and self.names:
            raise WrongPlaceholders("a statement has ? or :name, not both; the operator ? is written ??")
        if isinstance(values, Mapping):
            if self.positions:
                raise WrongPlaceholders("named values go to :name; the operator ? is written ??")
            if missing := sorted(self.names - values.keys()):
                raise WrongPlaceholders(f"there is no value for :{missing[0]}")
        elif self.names:
            raise WrongPlaceholders(f":{min(self.names)} takes its value by name: pass a dict")
        elif self.positions != len(values):
            raise WrongPlaceholders(
                f"{self.positions} placeholders (?) and {len(values)} values; the operator ? is written ??"
            )


@lru_cache(STATEMENTS_KEPT)
def pyformat(statement: str) -> Pyformat:
    """A statement as psycopg takes it together with its values."""
    written: list[str] = []
    names: set[str] = set()
    at = positions = 0
    while token := _TOKEN.search(statement, at):
        written.append(statement[at : token.start()])
        at = token.end()
        if token["comment"]:
            at = _comment_end(statement, token.end())
            written.append(_literal(statement[token.start() : at]))
        elif token["numbered"]:
            raise WrongPlaceholders(f"{token[0]} is a numbered placeholder: write ? in order, or :name")
        elif token["position"]:
            positions += 1
            written.append("%s")
        elif token["name"]:
            names.add(token["name"])
            written.append(f"%({token['name']})s")
        else:
            written.append("?" if token["twice"] else _literal(token[0]))
    return Pyformat("".join(written) + statement[at:], positions, frozenset(names))


def _literal(text: str) -> str:
    return text.replace("%", "%%")


def _comment_end(statement: str, at: int) -> int:
    """Where a comment ends that may hold others; one that never ends takes the rest."""
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(statement, at)):
        depth += 1 if edge[0] == _OPENS_COMMENT else -1
        at = edge.end()
    return len(statement) if depth else at
