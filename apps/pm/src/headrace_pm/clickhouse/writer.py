"""Writes blocks: the same again while ClickHouse does not answer, halves of it while it refuses what a block holds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial

import structlog

from headrace.errors import HeadraceError
from headrace.services import Pauses
from headrace_pm.clickhouse.blocks import Block
from headrace_pm.clickhouse.client import ClickHouse
from headrace_pm.clickhouse.errors import BlockRefused
from headrace_pm.clickhouse.messages import RowsRecord
from headrace_pm.clickhouse.metrics import ClickHouseMetrics
from headrace_pm.clickhouse.statements import DATA, DEAD
from headrace_pm.clickhouse.tables import check_tables
from headrace_pm.kafka.row_binary import text_piece

FORM = "RowBinaryWithNamesAndTypes"
_DEAD_COLUMNS = ("topic", "partition", "offset", "reason", "file", "revision", "batch", "key", "value")
log = structlog.get_logger("headrace_pm.clickhouse")


class BlockWriter:
    """Writes to the tables of one database. `wait` is called before anything is tried again, with the pause; it raises
    when the block is nobody's business here any more."""

    def __init__(
        self,
        clickhouse: ClickHouse,
        types: Mapping[str, str],
        metrics: ClickHouseMetrics,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clickhouse, self._metrics, self._wait = clickhouse, metrics, wait
        # Names and types stand before the rows, so that a table that was changed meanwhile is noticed and not misread.
        words = [*types, *types.values()]
        self._front = bytes([len(types)]) + b"".join(text_piece(word.encode()) for word in words)

    async def write(self, block: Block) -> AsyncIterator[int]:
        """All of a block, in order; yields how far it came, each time that everything before is in ClickHouse."""
        pieces = [block]
        while pieces:
            piece = pieces.pop()
            try:
                await self._surely(partial(self._insert, piece))
            except BlockRefused as refusal:
                self._metrics.refused.inc()
                good = piece.good
                if len(good) > 1:
                    log.warning("block.halved", rows=piece.rows, records=len(piece.records), reason=str(refusal))
                    pieces += reversed(piece.halves())
                    continue
                await self._surely(partial(self._set_aside, piece, piece.records, str(refusal)))
            else:
                if poison := piece.poison:
                    await self._surely(partial(self._set_aside, piece, poison))
            yield piece.end

    async def _insert(self, block: Block) -> None:
        content = block.content()
        if not content:
            return
        began = time.monotonic()
        try:
            await self._clickhouse.insert_block(DATA, FORM, self._front + content, block.token(content))
        except BlockRefused:
            # A column of another type is no fault of the block: it is told, and nothing is set aside.
            await check_tables(self._clickhouse)
            raise
        self._metrics.insert_s.observe(time.monotonic() - began)
        self._metrics.block_rows.observe(block.rows)
        self._metrics.rows.inc(block.rows)

    async def _set_aside(self, block: Block, records: Sequence[RowsRecord], why: str = "") -> None:
        rows = [
            (block.topic, block.partition, each.offset, each.reason or why, *each.effect, each.key, each.value)
            for each in records
        ]
        await self._clickhouse.insert_rows(DEAD, _DEAD_COLUMNS, rows)
        self._metrics.dead.inc(len(rows))
        for each in records:
            file, revision, batch = each.effect
            log.error(
                "record.set_aside",
                partition=block.partition,
                offset=each.offset,
                file=file,
                revision=revision,
                batch=batch,
                reason=each.reason or why,
            )

    async def _surely(self, work: Callable[[], Awaitable[None]]) -> None:
        """The same again while ClickHouse does not answer or takes nothing: its token makes that harmless."""
        pauses = Pauses()
        try:
            while True:
                try:
                    await work()
                    return
                except HeadraceError as error:
                    if not error.heals:
                        raise
                    self._metrics.failed.inc()
                    self._metrics.waiting.set(1)
                    log.warning("block.again", error=str(error))
                    await self._wait(pauses.next_s())
        finally:
            self._metrics.waiting.set(0)
