"""Named statements, numbered migrations and the functions of the account from the `.sql` files beside this module.

A statement begins with `-- name` on a line of its own, followed by a sentence that says what it is for.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- ([a-z_]+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    text: str

    @property
    def title(self) -> str:
        return f"{self.number:04d}_{self.name}"


@cache
def statements() -> dict[str, str]:
    """All statements by name."""
    found: dict[str, str] = {}
    for file in sorted((resources.files(__package__) / "sql").iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            parts = _NAME.split(file.read_text("utf-8"))
            found.update(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))
    return found


@cache
def migrations() -> tuple[Migration, ...]:
    """Tables, columns, indexes and data, in order of their numbers."""
    return tuple(Migration(int(name[:4]), name[5:], text) for name, text in _files("migrations"))


@cache
def functions() -> tuple[tuple[str, str], ...]:
    """The functions of the account, by file, in the order in which they are made."""
    return tuple(_files("functions"))


@cache
def functions_digest() -> str:
    """The same as long as the functions are the same; what is said about them between them does not count."""
    texts = (_COMMENT.sub("", text) for _, text in functions())
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:16]


def _files(folder: str) -> list[tuple[str, str]]:
    """Names and texts, in order of the names."""
    found = (resources.files(__package__) / "sql" / folder).iterdir()
    return sorted((file.name[:-4], file.read_text("utf-8")) for file in found if file.name.endswith(".sql"))
