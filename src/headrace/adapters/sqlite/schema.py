"""A file's schema for those who migrate by hand: what it has, what it lacks, and the statements."""

from __future__ import annotations

import asyncio

import apsw

from headrace.adapters.sqlite import guard
from headrace.adapters.sqlite.connections import MEMORY, translated
from headrace.adapters.sqlite.migrations import APPLICATION_ID, migrate_up, schema_newest, schema_of
from headrace.adapters.sqlite.statements import migrations
from headrace.core.schema_versions import SchemaVersions


async def up(location: str) -> list[str]:
    """Apply what is missing, in one transaction; the names of what was applied."""
    return await asyncio.to_thread(_up, location)


async def versions(location: str) -> SchemaVersions:
    return SchemaVersions(await asyncio.to_thread(_version, location), schema_newest())


def text() -> list[tuple[str, str]]:
    """Names and statements of all migrations, in order, beginning with what says that the file is one of ours."""
    begin = ("begin", f"PRAGMA application_id = {APPLICATION_ID};")
    return [
        begin,
        *((f"{number:04d}_{name}", f"{made}PRAGMA user_version = {number};") for number, name, made in migrations()),
    ]


def _up(location: str) -> list[str]:
    with_file = _connect(location)
    try:
        return migrate_up(with_file)
    finally:
        with_file.close()


def _version(location: str) -> int:
    with_file = _connect(location)
    try:
        return schema_of(with_file)
    finally:
        with_file.close()


def _connect(location: str) -> apsw.Connection:
    if location != MEMORY:
        guard.check_place(location)
    try:
        return apsw.Connection(location)
    except apsw.Error as error:
        raise translated(error, location) from error
