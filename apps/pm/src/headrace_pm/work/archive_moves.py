"""Brings files that both sinks have into the archive, some at a time under a hold, servers side by side.

A server has its share of seconds in each round. What is left of its files then is given back, and waits while others
have their turn: a slow server, or ten thousand files, neither hold up the rest nor make a round that never ends.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import structlog

from headrace.errors import HeadraceError
from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.errors import FolderMissing
from headrace_pm.ftp.mover import Move, MoveOutcome, Mover, MoveResult
from headrace_pm.ftp.names import bytes_of_name, bytes_of_path, text_of_name
from headrace_pm.ftp.pool import ServerLane, ServerPool
from headrace_pm.ftp.seen import SeenNames
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.tables.moves import FileMoves, FileToMove
from headrace_pm.work.disappearances import Disappearances
from headrace_pm.work.events import PipelineEvents
from headrace_pm.work.file_fetcher import folder_name
from headrace_pm.work.network_tables import ServerDirectory
from headrace_pm.work.outages import OutageClock

# About what a server renames in a third of a hold.
FILES_MAX = 200
SETTLED_MAX = 50
SHARE_S = 10.0
FAILED = "failed"
log = structlog.get_logger("headrace_pm.work")


class ArchiveMoves:
    """The moves of one process. `holder` names it, and holds last for `hold_s`."""

    def __init__(  # noqa: PLR0913
        self,
        moves: FileMoves,
        servers: ServerDirectory,
        pools: ServerPools,
        seen: SeenNames,
        events: PipelineEvents,
        holder: str,
        hold_s: float,
        two_steps: bool,
        outages: OutageClock,
        disappearances: Disappearances,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._moves, self._servers, self._pools, self._seen = moves, servers, pools, seen
        self._events, self._holder, self._hold_s, self._two_steps = events, holder, hold_s, two_steps
        self._outages, self._disappearances, self._now = outages, disappearances, now
        self._movers: dict[ServerPool, Mover] = {}

    async def round(self) -> bool:
        """Some of what may be moved now; True if there is more."""
        taken = await self._moves.take(FILES_MAX, self._holder, self._hold_s)
        if not taken:
            return False
        by_server: dict[tuple[str, str], list[FileToMove]] = defaultdict(list)
        for file in taken:
            by_server[file.folder.system_type, file.folder.server_key].append(file)
        until = self._now() + SHARE_S
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(self._keep(taken))
            servers = [group.create_task(self._of_server(*key, files, until)) for key, files in by_server.items()]
            await asyncio.wait(servers)
            keeping.cancel()
        left = [file for each in servers for file in each.result()]
        # Behind a full batch there are others, whose turn it is.
        await self._moves.give_back(left, SHARE_S if len(taken) == FILES_MAX else 0.0)
        return len(taken) == FILES_MAX or bool(left)

    async def _keep(self, files: Sequence[FileToMove]) -> None:
        """What was settled meanwhile is not touched."""
        while True:
            await asyncio.sleep(self._hold_s / 3)
            try:
                await self._moves.renew(files, self._hold_s)
            except HeadraceError as error:
                if not error.heals:
                    raise
                log.warning("moves.not_renewed", error=str(error))

    async def _of_server(
        self, system_type: str, key: str, files: Sequence[FileToMove], until: float
    ) -> Sequence[FileToMove]:
        """Move them until that moment; those for which there was no time."""
        server = await self._servers.server_of(system_type, key)
        if server is None:
            await self._moves.failed(files, f"ftp_server has no {system_type} server {key}")
            return ()
        pool = self._pools.pool_of(server)
        if pool not in self._movers:
            self._movers = {each: mover for each, mover in self._movers.items() if each in self._pools.pools()}
            self._movers[pool] = Mover(pool, self._two_steps)
        for first in range(0, len(files), SETTLED_MAX):
            some = files[first : first + SETTLED_MAX]
            found, failed = await self._moved(self._movers[pool], some, until)
            await self._settle(found, pool)
            for file, error in failed.items():
                log.warning("move.failed", file=file.file_name, server=key, error=str(error))
                self._events.moved(FAILED)
                if _is_of_server(error):
                    # The server is away: the others would meet the same.
                    left = [each for each in files[first:] if each not in found]
                    await self._moves.failed(left, str(error), self._outages.failed(key))
                    return ()
                await self._moves.failed([file], str(error))
            self._outages.passed(key)
            if self._now() >= until:
                return [each for each in files[first:] if each not in found and each not in failed]
        return ()

    async def _moved(
        self, mover: Mover, files: Sequence[FileToMove], until: float
    ) -> tuple[dict[FileToMove, MoveResult], dict[FileToMove, HeadraceError]]:
        """What became of each, and what failed. One whose server is away is the last that is tried."""
        found: dict[FileToMove, MoveResult] = {}
        failed: dict[FileToMove, HeadraceError] = {}
        for file in files:
            try:
                found[file] = await _moved_surely(mover, _wanted(file))
                if found[file].outcome is not MoveOutcome.VANISHED:
                    self._events.moved(found[file].outcome)
            except HeadraceError as error:
                failed[file] = error
                if _is_of_server(error):
                    break
            if self._now() >= until:
                break
        return found, failed

    async def _settle(self, found: Mapping[FileToMove, MoveResult], pool: ServerPool) -> None:
        """Some together: a killed mover looks where each file is, and finds those that were moved."""
        by_outcome: dict[MoveOutcome, list[FileToMove]] = defaultdict(list)
        for file, result in found.items():
            by_outcome[result.outcome].append(file)
        moved = by_outcome[MoveOutcome.MOVED]
        await self._moves.moved({file: text_of_name(found[file].path) for file in moved})
        names: dict[ServerFolder, list[str]] = defaultdict(list)
        for file in moved:
            names[file.folder].append(file.file_name)
        for folder, some in names.items():
            # The same names may come again.
            await self._seen.remove(folder, some)
            self._disappearances.passed(folder)
            self._outages.passed(folder_name(folder))
        await self._moves.changed(by_outcome[MoveOutcome.CHANGED])
        for file in by_outcome[MoveOutcome.VANISHED]:
            await self._vanished(file, pool)

    async def _vanished(self, file: FileToMove, pool: ServerPool) -> None:
        try:
            await self._disappearances.judge(pool, file.folder, file.file_id, ServerLane.MOVE)
        except HeadraceError as error:
            if not error.heals:
                raise
            self._events.moved(FAILED)
            await self._moves.failed([file], str(error), self._outages.failed(folder_name(file.folder)))
        else:
            self._events.moved(MoveOutcome.VANISHED)
            await self._moves.vanished([file])


def _is_of_server(error: HeadraceError) -> bool:
    """Whether all files of a server would meet it; a folder that is missing keeps those of others from nothing."""
    return error.heals and not isinstance(error, FolderMissing)


async def _moved_surely(mover: Mover, wanted: Move) -> MoveResult:
    """A connection that was kept may be dead by now, which says nothing of its server: a new one tells."""
    try:
        return await mover.move(wanted)
    except HeadraceError as error:
        if not error.heals:
            raise
        return await mover.move(wanted)


def _wanted(file: FileToMove) -> Move:
    folder, name = bytes_of_path(file.folder.path), bytes_of_name(file.file_name)
    return Move(folder, name, file.read, file.revision)
