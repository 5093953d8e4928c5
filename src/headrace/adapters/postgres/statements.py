"""Named statements and numbered migrations from the `.sql` files beside this module.

A statement begins with `-- name` on a line of its own, followed by a sentence that says what it is for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- ([a-z_]+)\n", re.MULTILINE)


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
    """In order of their numbers."""
    folder = resources.files(__package__) / "sql" / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(Migration(int(name[:4]), name[5:-4], (folder / name).read_text("utf-8")) for name in names)
