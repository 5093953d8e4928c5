"""Into the archive: a file whose rows are in both sinks goes to `ClickHouse/Done/`, once, and over nothing.

Every server overwrites what has the name already, and an answer to a rename may be lost. So nobody is asked what
happened: the mover looks at the places where the file may be, the last one first. The moment of a file survives a
rename, and so its stamp tells it from another of the same name.

    at the target                         it is moved (by an earlier try, or somebody else)
    at the source, as it was when read    rename it; if the name is taken, as NAME.rev2, NAME.rev3, …
    at the source, but another            not moved: it came again, and is processed again
    nowhere, and the folder is there      vanished

Between the look and the rename the file may be replaced. Then the archive has what was never read: that is seen by a
look behind the rename, and it is put back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from headrace_pm.ftp.errors import CommandRefused, FileGone, RenameUnanswered
from headrace_pm.ftp.names import joined, shown
from headrace_pm.ftp.pool import ServerLane, ServerPool
from headrace_pm.ftp.sessions.file_session import FileSession
from headrace_pm.ftp.stamps import Stamp

INTERMEDIATE, DONE = b"ClickHouse", b"Done"
LOOKS_MAX = 3
# So often may one name come again and be archived; beyond that somebody makes files faster than anybody reads them.
REVISIONS_MAX = 1_000


class MoveOutcome(StrEnum):
    """What became of a file that was to be moved."""

    MOVED = "moved"
    CHANGED = "changed"
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True)
class Move:
    """What to move. `read` is the stamp that the file had when it was fetched; `revision` is 1 for the first."""

    folder: bytes
    name: bytes
    read: Stamp
    revision: int = 1


@dataclass(frozen=True, slots=True)
class MoveResult:
    """What became of it, and under which path."""

    outcome: MoveOutcome
    path: bytes = b""


def archive_of(folder: bytes) -> bytes:
    """Where files of a folder end."""
    return joined(folder, INTERMEDIATE, DONE)


class Mover:
    """Moves files of one server. `two_steps` is the old manner: first into `ClickHouse/`, where others may look."""

    def __init__(self, pool: ServerPool, two_steps: bool = False) -> None:
        self._pool, self._two_steps = pool, two_steps
        self._made: set[bytes] = set()

    async def move(self, wanted: Move) -> MoveResult:
        """Bring one file to its place. Raises what the server says if it cannot be decided now; then again."""
        for _ in range(LOOKS_MAX):
            try:
                async with self._pool.session(ServerLane.MOVE) as session:
                    return await self._decide(session, wanted)
            except (RenameUnanswered, FileGone):
                # The answer is lost with the connection, or the file went between look and rename: look again.
                continue
            except CommandRefused:
                # Perhaps because somebody has removed the archive since we made it.
                if wanted.folder not in self._made:
                    raise
                self._made.discard(wanted.folder)
        async with self._pool.session(ServerLane.MOVE) as session:
            return await self._decide(session, wanted)

    async def _decide(self, session: FileSession, wanted: Move) -> MoveResult:
        await self._make_folders(session, wanted.folder)
        target, archived = await self._look(session, wanted)
        source = joined(wanted.folder, wanted.name)
        at_source = await session.facts(source)
        if at_source is not None:
            if not at_source.agrees_with(wanted.read):
                return MoveResult(MoveOutcome.CHANGED, source)
            return await self._from_source(session, wanted, source, target)
        if archived:
            return MoveResult(MoveOutcome.MOVED, archived)
        between = joined(wanted.folder, INTERMEDIATE, wanted.name)
        left_between = await session.facts(between)
        if left_between is not None and left_between.agrees_with(wanted.read):
            # An earlier try in two steps, or the old system, came so far.
            return await self._renamed(session, between, target, wanted)
        # Somebody may have moved it between our two looks.
        _, archived = await self._look(session, wanted)
        if not archived:
            # If the whole folder is missing that says nothing of a file.
            await session.listing(wanted.folder)
        return MoveResult(MoveOutcome.MOVED, archived) if archived else MoveResult(MoveOutcome.VANISHED, source)

    async def _from_source(self, session: FileSession, wanted: Move, source: bytes, target: bytes) -> MoveResult:
        if self._two_steps:
            between = joined(wanted.folder, INTERMEDIATE, wanted.name)
            if await session.facts(between) is None:
                first = await self._renamed(session, source, between, wanted)
                if first.outcome is not MoveOutcome.MOVED:
                    return first
                source = between
        return await self._renamed(session, source, target, wanted)

    async def _renamed(self, session: FileSession, source: bytes, target: bytes, wanted: Move) -> MoveResult:
        await session.rename(source, target)
        found = await session.facts(target)
        if found is not None and not found.agrees_with(wanted.read):
            # It was replaced between look and rename: the archive would keep what nobody has read.
            if await session.facts(source) is None:
                await session.rename(target, source)
            return MoveResult(MoveOutcome.CHANGED, source)
        return MoveResult(MoveOutcome.MOVED, target)

    async def _look(self, session: FileSession, wanted: Move) -> tuple[bytes, bytes]:
        """The first free path in the archive; and that of what looks like this very file, or nothing."""
        archived = b""
        for name in _names(wanted):
            path = joined(archive_of(wanted.folder), name)
            found = await session.facts(path)
            if found is None:
                return path, archived
            if found.agrees_with(wanted.read):
                archived = path
        raise CommandRefused(
            f"{self._pool.name}: the archive has {REVISIONS_MAX:,} revisions of {shown(wanted.name)}",
            "clear it: headrace pm archive",
        )

    async def _make_folders(self, session: FileSession, folder: bytes) -> None:
        if folder not in self._made:
            # Else a folder that is missing would be made, and everything that was in it would be taken for vanished.
            await session.listing(folder)
            await session.make_folder(archive_of(folder))
            self._made.add(folder)


def _names(wanted: Move) -> Iterator[bytes]:
    """Under which names a file may be archived, the best first."""
    yield wanted.name
    for number in range(max(2, wanted.revision), max(2, wanted.revision) + REVISIONS_MAX):
        yield b"%s.rev%d" % (wanted.name, number)
