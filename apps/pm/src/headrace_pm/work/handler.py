"""The way of one file that is held: into the spool, through the reader, into both sinks.

Whatever ends it early leaves what was done: the spool has the file, each sink its checkpoint, the row its flags. Who
holds the file next goes on from there, and writes nothing twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace import Dead, Snooze
from headrace.errors import ClaimLost, HeadraceError
from headrace.sources import SourceContext
from headrace_pm.counters.dictionary import NetworkDictionary, UnknownElement
from headrace_pm.ftp.errors import SpoolFull, SpoolUnusable
from headrace_pm.kafka.records import FileRevision
from headrace_pm.operators.unknown_counters import UnknownCounters, out_of_scope
from headrace_pm.sinks.counter_sink import TABLE_SINK, Batches
from headrace_pm.spool.part import room_for
from headrace_pm.spool.spool import SpooledFile
from headrace_pm.tables.file_claims import HeldFile
from headrace_pm.tables.progress import FileProgress
from headrace_pm.wire.byte_source import FileBytes
from headrace_pm.wire.counter_file import CounterFile, plain_file
from headrace_pm.wire.file_errors import BadFile, IncompleteFile
from headrace_pm.wire.frame import Incomplete, examine
from headrace_pm.work.events import PipelineEvents
from headrace_pm.work.file_fetcher import SPOOL, FileFetcher, spool_key
from headrace_pm.work.file_outcomes import NOT_WHOLE_S, FileWaits, end_of, is_not_ready
from headrace_pm.work.network_tables import Dictionaries
from headrace_pm.work.outages import OutageClock
from headrace_pm.work.shared_batches import SharedBatches
from headrace_pm.work.sink_lane import SinkAway, SinkLane


@dataclass
class FileHandler:
    """The handler of the worker. `in_hand` are the keys of files in the spool that somebody works on."""

    fetcher: FileFetcher
    progress: FileProgress
    dictionaries: Dictionaries
    lanes: Sequence[SinkLane]
    outages: OutageClock
    events: PipelineEvents
    batch: int
    unknown: UnknownCounters | None = None
    in_hand: set[str] = field(default_factory=set)

    async def __call__(self, file: HeldFile, context: SourceContext) -> Dead | Snooze | None:
        key = spool_key(file)
        self.in_hand.add(key)
        try:
            await self._taken_in(file)
        except FileWaits as waits:
            context.log.info("file.waits", file=file.file_name, reason=waits.reason, pause_s=round(waits.pause_s))
            await self._note(file, waits.reason, context)
            return Snooze(waits.pause_s)
        except Dead as end:
            context.log.error("file.ended", file=file.file_name, path=file.ftp_path, reason=end.reason)
            self._drop(key)
            # One that was raised has a traceback, which would be logged: what is wrong with a file is no fault of ours.
            return Dead(end.reason, end.rule)
        finally:
            # Thousands of files may wait, and what they unpack to would take the room of others.
            self.fetcher.spool.drop_plain(key)
            self.in_hand.discard(key)
        self._drop(key)
        return None

    async def _taken_in(self, file: HeldFile) -> None:
        """What our own disk refuses, wherever that shows, is no fault of a file: it waits, and spends no attempt."""
        try:
            await self._take_in(file)
        except OSError as error:
            raise FileWaits(f"the disk of this process: {error}", self.outages.failed(SPOOL)) from error

    async def _take_in(self, file: HeldFile) -> None:
        if file.mysql_processed and file.clickhouse_processed:
            # Whoever had it last came to the end, and not to the settlement.
            return
        began = time.monotonic()
        spooled = await self.fetcher.fetch(file)
        plain = await self._unpacked(spooled)
        digest, size = bytes.fromhex(spooled.digest), spooled.stamp.size
        fetched = await self.progress.downloaded(file, spooled.stamp, digest, size)
        self.events.downloaded(size, time.monotonic() - began)
        if fetched.is_same:
            return
        batches = await self._read(fetched.held, plain)
        try:
            await self._write(fetched.held, batches)
        finally:
            await asyncio.shield(asyncio.to_thread(batches.close))

    async def _unpacked(self, spooled: SpooledFile) -> Path:
        """Where the file is as it can be read. One that is not whole is as long as its server said, so its upload broke
        off: it gives its room back before the row says that it was read, and its next listing counts."""
        spool = self.fetcher.spool
        plain, grow = spool.plain_path(spooled.key), spool.plain_room(spooled.key)
        try:
            return await asyncio.to_thread(_whole, spooled.path, plain, grow)
        except HeadraceError as error:
            if isinstance(error, SpoolFull | SpoolUnusable):
                raise FileWaits(str(error), self.outages.failed(SPOOL)) from error
            if not is_not_ready(error):
                raise end_of(error) or error from error
            self._drop(spooled.key)
            raise FileWaits(str(error), NOT_WHOLE_S) from error

    async def _read(self, held: HeldFile, plain: Path) -> SharedBatches:
        """The file, of which everything was checked; nothing of a bad one goes on."""
        began = time.monotonic()
        source = FileBytes(plain)
        try:
            file = await asyncio.to_thread(CounterFile, source)
            dictionary = await self._dictionary_for(file)
            await self.progress.parsed(held, file.counters, file.batch_count(self.batch), self.batch)
        except BadFile as error:
            source.close()
            raise end_of(error) or error from error
        except BaseException:
            source.close()
            raise
        self.events.parsed(file.counters, time.monotonic() - began)
        if self.unknown is not None:
            self.unknown.note(held.version, held.file_name, await asyncio.to_thread(out_of_scope, file, dictionary))
        return SharedBatches(source, file, dictionary, self.batch)

    async def _dictionary_for(self, file: CounterFile) -> NetworkDictionary:
        """One that knows all elements of the file, if the tables do."""
        dictionary = await self.dictionaries.current()
        try:
            _know(dictionary, file)
        except UnknownElement:
            dictionary = await self.dictionaries.newest()
            try:
                _know(dictionary, file)
            except UnknownElement as error:
                raise end_of(error) or error from error
        return dictionary

    async def _write(self, held: HeldFile, batches: Batches) -> None:
        """To the sinks that have not all of it, at once. One that is away keeps the other from nothing."""
        done = {TABLE_SINK: held.mysql_processed}
        missing = [lane for lane in self.lanes if not done.get(lane.name, held.clickhouse_processed)]
        ended = await asyncio.gather(*(self._to(lane, held, batches) for lane in missing), return_exceptions=True)
        errors = [error for error in ended if error is not None]
        for error in sorted(errors, key=_weight):
            if isinstance(error, SinkAway):
                raise FileWaits(str(error), max(self.outages.failed(name) for name in _names(missing, ended)))
            raise (end_of(error) or error) if isinstance(error, HeadraceError) else error

    async def _to(self, lane: SinkLane, held: HeldFile, batches: Batches) -> None:
        began = time.monotonic()
        file = FileRevision(held.file_id, held.file_name, held.revision, held.version, held.epoch)
        await lane.write(file, batches)
        self.outages.passed(lane.name)
        if not lane.sink.sets_flag:
            await self.progress.sink_done(held, lane.name)
        self.events.written(lane.name, time.monotonic() - began)

    async def _note(self, file: HeldFile, reason: str, context: SourceContext) -> None:
        """People read in the row why it waits; if that cannot be written now, it waits all the same."""
        try:
            await self.progress.note(file, reason)
        except HeadraceError as error:
            if not error.heals:
                raise
            context.log.warning("note.failed", error=str(error))

    def _drop(self, key: str) -> None:
        self.fetcher.spool.drop(key)


def _whole(path: Path, plain: Path, grow: Callable[[int], None]) -> Path:
    with room_for(plain):
        found = plain_file(path, plain, grow)
    with FileBytes(found) as source:
        verdict = examine(source)
    if isinstance(verdict, Incomplete):
        raise IncompleteFile(verdict.missing)
    return found


def _know(dictionary: NetworkDictionary, file: CounterFile) -> None:
    for unit in file.units:
        dictionary.ne_id(unit)


def _weight(error: BaseException) -> int:
    """What is told first: that the file is not ours any more, then what is wrong with it, then what is away."""
    if isinstance(error, ClaimLost):
        return 0
    return 2 if isinstance(error, SinkAway) else 1


def _names(lanes: Sequence[SinkLane], ended: Sequence[BaseException | None]) -> list[str]:
    return [lane.name for lane, error in zip(lanes, ended, strict=True) if isinstance(error, SinkAway)]
