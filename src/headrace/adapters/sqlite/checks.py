"""What can be wrong with a store file and the place where it lies. Looks only: nothing here is changed or repaired."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from headrace.adapters.sqlite import guard, hints
from headrace.adapters.sqlite.clock import MachineClock
from headrace.adapters.sqlite.connections import connect, translated
from headrace.adapters.sqlite.file_watch import strayed
from headrace.adapters.sqlite.migrations import check as check_schema
from headrace.adapters.sqlite.migrations import schema_newest
from headrace.adapters.sqlite.statements import load_statements
from headrace.core.checks import Check, Health, bad, expired_claims, fine, warning
from headrace.core.errors import HeadraceError

MIB = 1024 * 1024
FREE_BYTES_BAD, FREE_BYTES_LOW = 64 * MIB, 1024 * MIB
LOG_BYTES_MAX = 512 * MIB
STALE_SOCKETS_MAX = 50
SYNCHRONOUS_FULL = 2
AN_EARLIER_BOOT_S = 3_600.0


async def examine(location: str) -> list[Check]:
    """Everything that can be seen of a store file; of one that is not there, who has it open nevertheless."""
    return await asyncio.to_thread(_examine, location)


def _examine(path: str) -> list[Check]:
    checks = list(_strayed(path))
    if not Path(path).exists():
        return checks
    checks += _place(path)
    if any(check.state is Health.BAD for check in checks):
        return checks
    try:
        return [*checks, *_beside(path), *_inside(path)]
    except (apsw.Error, HeadraceError) as error:
        told = translated(error, path)
        return [*checks, bad("store", str(told), getattr(told, "hint", ""))]


def _strayed(path: str) -> Iterator[Check]:
    for pid in strayed(path):
        found = f"process {pid} has it open, but the file was deleted or replaced: what that process writes is lost"
        yield bad("file", found, f"kill {pid}, put the right file back together with its -wal, and start again")


def _place(path: str) -> Iterator[Check]:
    folder = Path(path).absolute().parent
    kind = guard.file_system(folder)
    if kind in guard.NETWORK_KINDS:
        hint = "move it to a local disk, or use --store postgresql://…"
        yield bad("file system", f"{kind} is a network file system, where SQLite's locks cannot be relied on", hint)
    elif kind:
        yield fine("file system", f"{kind}, which is local")
    else:
        yield warning("file system", "its kind cannot be known", "make sure that it is a local disk")
    yield _permissions(Path(path), folder)
    yield space(shutil.disk_usage(folder).free)


def _permissions(file: Path, folder: Path) -> Check:
    if not os.access(folder, os.W_OK | os.X_OK):
        hint = f"let this user write to {shlex.quote(str(folder))}"
        return bad("permissions", "its directory cannot be written, and SQLite makes files beside the store", hint)
    if not os.access(file, os.R_OK | os.W_OK):
        return bad("permissions", "the file cannot be read and written", f"chown or chmod {shlex.quote(str(file))}")
    for path in (file, folder):
        mode = path.stat().st_mode
        if mode & stat.S_IWOTH and not (path is folder and mode & stat.S_ISVTX):
            hint = f"chmod o-w {shlex.quote(str(path))}"
            return warning("permissions", f"everybody on this machine may write to {path}", hint)
    return fine("permissions", "file and directory can be written, and not by everybody")


def space(free: int) -> Check:
    """What the room that is left on the disk means."""
    found = f"{free / MIB:,.0f} MiB left on its disk"
    if free < FREE_BYTES_BAD:
        return bad("disk space", found, "free some: a full disk stops the store before anything is acknowledged")
    if free < FREE_BYTES_LOW:
        return warning("disk space", found, "free some before it is used up")
    return fine("disk space", found)


def _beside(path: str) -> Iterator[Check]:
    yield log_size(_size(f"{path}-wal"))
    count, deaf = hints.stale(path)
    if deaf > STALE_SOCKETS_MAX:
        hint = f"rm -r {shlex.quote(f'{path}-wake')} while no process has the store open"
        yield warning("wake sockets", f"{deaf:,} of {count:,} belong to processes that are gone", hint)
    else:
        forgotten = f", {deaf} are gone and forgotten at the next ring" if deaf else ""
        yield fine("wake sockets", f"{count - deaf} processes listen{forgotten}")


def log_size(size: int) -> Check:
    """What the size of the write-ahead log means."""
    found = f"the write-ahead log has {size / MIB:,.0f} MiB"
    if size > LOG_BYTES_MAX:
        hint = "find the process that keeps a read transaction open on the file, and end it"
        return warning("log", f"{found}, so something keeps it from being written back", hint)
    return fine("log", found)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _inside(path: str) -> Iterator[Check]:
    looking = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        mode = str(looking.pragma("journal_mode"))
        check_schema(looking, path)
        yield fine("schema", f"{schema_newest()}, the one that this code needs")
        clock = MachineClock()
        values = {"now": clock.monotonic(), "boot": clock.boot_id(), "unknown": AN_EARLIER_BOOT_S}
        expired: list[Any] = looking.execute(load_statements()["examine_expired"], values).fetchall()
    finally:
        looking.close()
    yield expired_claims(*expired[0])
    if mode == "wal":
        yield fine("journal", "a write-ahead log")
    else:
        hint = "find the program that set it: nothing but headrace may write to this file"
        yield warning("journal", f"its mode was {mode}, and opening a store puts it back to wal", hint)
    working = connect(path)
    try:
        synchronous = working.pragma("synchronous")
    finally:
        working.close()
    if synchronous == SYNCHRONOUS_FULL:
        yield fine("durability", "every commit is on the disk before it is acknowledged (synchronous=FULL)")
    else:
        yield bad("durability", f"synchronous={synchronous}: a power cut loses commits", "install apsw from its wheel")
