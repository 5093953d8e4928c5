"""Named statements from `.cql` files.

A statement begins with `-- name: some_name` on a line of its own and takes `:values`. `-- operation: lock` on the next
line says which row of the table of consistencies is its own; without it that is `queue`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from headrace.adapters.cassandra.options import QUEUE
from headrace.core.errors import CallerError

_NAME = re.compile(r"^-- name: ([a-z_0-9]+)\n", re.MULTILINE)
_OPERATION = re.compile(r"^-- operation: ([a-z]+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_CONDITION = re.compile(r"\bIF\b")


@dataclass(frozen=True, slots=True)
class CqlStatement:
    """`conditional`: a lightweight transaction."""

    name: str
    text: str
    operation: str
    reads: bool
    conditional: bool

    @classmethod
    def of(cls, name: str, text: str) -> CqlStatement:
        named = _OPERATION.search(text)
        plain = _COMMENT.sub("", text).strip().rstrip(";").strip()
        reads = plain.upper().startswith("SELECT")
        return cls(name, plain, named[1] if named else QUEUE, reads, not reads and bool(_CONDITION.search(plain)))


@cache
def statements(package: str = __package__) -> Mapping[str, CqlStatement]:
    """All statements of a package's folder `cql`, by name."""
    found: dict[str, CqlStatement] = {}
    for text in _texts(package, "cql"):
        parts = _NAME.split(text)
        for name, statement in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise CallerError(f"{package} has two statements called {name}")
            found[name] = CqlStatement.of(name, statement)
    return found


def schema_text(package: str = __package__) -> str:
    """What makes the tables of a package: its files in `cql/schema`, in order of their names."""
    return "\n".join(_texts(package, "cql/schema"))


def pieces(text: str) -> list[str]:
    """The statements of a file that are separated by semicolons, without comments."""
    return [piece.strip() for piece in _COMMENT.sub("", text).split(";") if piece.strip()]


def _texts(package: str, folder: str) -> Iterator[str]:
    place = resources.files(package).joinpath(*folder.split("/"))
    if place.is_dir():
        files = sorted((entry for entry in place.iterdir() if entry.name.endswith(".cql")), key=lambda file: file.name)
        yield from (file.read_text("utf-8") for file in files)
