"""Named statements from the `.sql` files beside this module.

A statement begins with `-- name` on a line of its own, followed by a sentence that says what it is for.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- ([a-z_]+)\n", re.MULTILINE)


@cache
def _loaded() -> dict[str, str]:
    statements: dict[str, str] = {}
    for file in sorted((resources.files(__package__) / "sql").iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            parts = _NAME.split(file.read_text("utf-8"))
            statements.update(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))
    return statements


def load_statements() -> dict[str, str]:
    """All statements by name; a copy that the caller may change."""
    return dict(_loaded())


def migrations() -> list[tuple[int, str, str]]:
    """(number, name, text) in order."""
    folder = resources.files(__package__) / "sql" / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name[:4]), name[5:-4], (folder / name).read_text("utf-8")) for name in names]
