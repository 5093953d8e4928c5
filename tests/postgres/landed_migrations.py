"""Stores as they were up to version 22, when numbered migrations brought the functions: made by those very files."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path

import psycopg

from headrace.adapters.postgres.statements import statements

NEWEST = 22
# Packed, because nobody reads them and a search should find each function once.
_FILES = Path(__file__).with_suffix(".tar.xz")


def make_store(connection: psycopg.Connection[tuple[object, ...]], version: int) -> None:
    """What a headrace of that version made of an empty database."""
    connection.execute(statements()["migrate_begin"].encode())
    for name, text in _landed()[:version]:
        connection.execute(text, prepare=False)
        note = "INSERT INTO headrace.migration (number, name) VALUES (%s, %s)"
        connection.execute(note, (int(name[:4]), name[5:-4]))


@cache
def _landed() -> list[tuple[str, bytes]]:
    with tarfile.open(_FILES) as files:
        return sorted((file.name, found.read()) for file in files if (found := files.extractfile(file)) is not None)
