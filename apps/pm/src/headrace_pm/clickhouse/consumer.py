"""One member of the consumer group: reads its partitions, cuts blocks, has them written, and commits what is in.

Offsets are committed twice for a block: before it is written, where it will end (see `blocks`), and after it is in. A
member that lost a partition finds out when it commits or polls, drops what it holds of it, and the new owner repeats
the planned block.

All calls of the Kafka client happen in threads, one after the other, and what it tells about partitions happens within
them: nothing here needs a lock. While ClickHouse is away partitions are paused and the client is polled on, so that the
group does not take this member for dead, and nothing more is read than is held.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from headrace.errors import OperatorError, Unreachable
from headrace.services import Pauses
from headrace_pm.clickhouse.blocks import Block, PartitionBacklog, largest, plan_text, planned_end
from headrace_pm.clickhouse.client import ClickHouse
from headrace_pm.clickhouse.messages import read_record
from headrace_pm.clickhouse.metrics import ClickHouseMetrics
from headrace_pm.clickhouse.settings import ClickHouseSettings
from headrace_pm.clickhouse.tables import check_tables
from headrace_pm.clickhouse.writer import BlockWriter
from headrace_pm.kafka.producer import check_topic, log_error

POLL_S = 0.2
POLL_RECORDS_MAX = 5_000
COMMITTED_S_MAX, COMMITTED_TRIES = 10.0, 12
# What the client may read ahead, beside the block in hand.
READ_AHEAD_KBYTES = 16_384
log = structlog.get_logger("headrace_pm.clickhouse")


class PartitionLost(Exception):
    """Another member of the group has this partition now, or nobody waits for it any more."""


class TopicConsumer:
    """Reads one topic into one database until it is stopped."""

    def __init__(self, settings: ClickHouseSettings, clickhouse: ClickHouse, metrics: ClickHouseMetrics) -> None:
        self._settings, self._clickhouse, self._metrics = settings, clickhouse, metrics
        self._backlogs: dict[int, PartitionBacklog] = {}
        self._client = Consumer(self._options())
        self._stop = asyncio.Event()
        self._in_hand: PartitionBacklog | None = None

    @property
    def partitions(self) -> list[int]:
        """Those of this member."""
        return sorted(self._backlogs)

    async def answers(self) -> None:
        await asyncio.to_thread(check_topic, self._client, self._settings.kafka_topic)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set; then what was read is written, as far as ClickHouse takes it at once."""
        self._stop = stop
        writer = BlockWriter(self._clickhouse, await check_tables(self._clickhouse), self._metrics, self._wait)
        self._client.subscribe(
            [self._settings.kafka_topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        try:
            while not stop.is_set():
                await asyncio.to_thread(self._poll, POLL_RECORDS_MAX, POLL_S)
                while (due := self._due()) is not None and not stop.is_set():
                    await self._write(writer, due)
            for backlog in list(self._backlogs.values()):
                if backlog.records:
                    await self._write(writer, backlog)
        finally:
            await asyncio.to_thread(self._client.close)

    def _due(self) -> PartitionBacklog | None:
        now, settings = time.monotonic(), self._settings
        backlogs = [each for each in self._backlogs.values() if each.records]
        for each in backlogs:
            if each.is_due(now, settings.clickhouse_block_rows, settings.clickhouse_block_s):
                return each
        if sum(each.size for each in backlogs) >= settings.clickhouse_block_bytes:
            # A planned block is not cut before its end; it is no larger than the member that planned it could hold.
            free = [each for each in backlogs if each.planned_end is None]
            return largest(free) if free else None
        return None

    async def _write(self, writer: BlockWriter, backlog: PartitionBacklog) -> None:
        self._in_hand = backlog
        try:
            block = backlog.block()
            if block is None:
                return
            if backlog.planned_end is None:
                await self._commit(block, block.begin, block.end)
                backlog.planned_end = block.end
            async for end in writer.write(block):
                await self._commit(block, end, block.end)
                backlog.written_until(end, time.monotonic())
        except PartitionLost:
            log.info("partition.lost", partition=backlog.partition, offset=backlog.begin)
        finally:
            self._in_hand = None

    async def _commit(self, block: Block, offset: int, end: int) -> None:
        """`offset` is where the group continues; up to `end` lies a block that was planned, if it is beyond. A group
        that rebalances refuses commits: either they are taken afterwards, or the partition is somebody else's."""
        plan = plan_text(end) if end > offset else ""
        place = TopicPartition(block.topic, block.partition, offset, plan)
        pauses = Pauses()
        while True:
            try:
                await asyncio.to_thread(self._client.commit, offsets=[place], asynchronous=False)
                return
            except KafkaException as error:
                log.warning("commit.again", error=error.args[0].str())
                await self._wait(pauses.next_s())

    async def _wait(self, pause_s: float) -> None:
        """Before something is tried again: the group is told that this member lives."""
        held = self._in_hand
        await asyncio.to_thread(self._pause)
        try:
            deadline = time.monotonic() + pause_s
            while (rest_s := deadline - time.monotonic()) > 0 and not self._stop.is_set():
                await asyncio.to_thread(self._poll, 1, min(rest_s, POLL_S))
        finally:
            await asyncio.to_thread(self._resume)
        if self._stop.is_set() or (held is not None and held.is_lost):
            raise PartitionLost

    def _pause(self) -> None:
        self._client.pause(self._client.assignment())

    def _resume(self) -> None:
        self._client.resume(self._client.assignment())

    def _poll(self, records_max: int, wait_s: float) -> None:
        """Read what there is; members that come and go are noticed in here."""
        now = time.monotonic()
        for message in self._client.consume(records_max, wait_s):
            if (error := message.error()) is not None:
                _judge(error)
                continue
            backlog = self._backlogs.get(message.partition() or 0)
            if backlog is not None:
                backlog.add(read_record(message), now)
        self._measure()

    def _measure(self) -> None:
        for backlog in self._backlogs.values():
            place = TopicPartition(backlog.topic, backlog.partition)
            marks = self._client.get_watermark_offsets(place, cached=True)
            if marks is not None and marks[1] >= 0:
                self._metrics.lag.labels(backlog.topic, backlog.partition).set(
                    max(0, marks[1] - max(backlog.begin, marks[0]))
                )

    def _assigned(self, client: Consumer, places: list[TopicPartition]) -> None:
        known = self._committed(client, places) if places else []
        for place in known:
            begin = max(place.offset, 0)
            self._backlogs[place.partition] = PartitionBacklog(
                place.topic, place.partition, begin, planned_end(place.metadata, begin)
            )
        client.incremental_assign(
            [
                TopicPartition(place.topic, place.partition, place.offset if place.offset >= 0 else OFFSET_BEGINNING)
                for place in known
            ]
        )
        # One that was lost while it was paused is still paused when it comes back.
        client.resume(places)

    def _committed(self, client: Consumer, places: list[TopicPartition]) -> list[TopicPartition]:
        """Where the group continues; a coordinator that does not answer at once is asked again."""
        for tries_left in reversed(range(COMMITTED_TRIES)):
            try:
                return client.committed(places, timeout=COMMITTED_S_MAX)
            except KafkaException as error:
                if not tries_left or self._stop.is_set():
                    raise Unreachable(f"Kafka does not say where its group continues: {error.args[0].str()}") from None
        return []

    def _revoked(self, client: Consumer, places: list[TopicPartition]) -> None:
        for place in places:
            backlog = self._backlogs.pop(place.partition, None)
            if backlog is not None:
                backlog.is_lost = True
                self._metrics.lag.remove(backlog.topic, str(backlog.partition))
        client.incremental_unassign(places)

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        return {
            "bootstrap.servers": settings.kafka_bootstrap,
            "client.id": "headrace-pm-clickhouse",
            "group.id": settings.clickhouse_group,
            "session.timeout.ms": int(settings.clickhouse_session_s * 1_000),
            "heartbeat.interval.ms": int(settings.clickhouse_session_s * 1_000 / 5),
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": READ_AHEAD_KBYTES,
            "reconnect.backoff.max.ms": 1_000,
            "log_level": 0,
            "error_cb": log_error,
        }


def _judge(error: KafkaError) -> None:
    """A broker that is away comes back, and a topic may be made; what the group forbids does not heal."""
    if error.fatal():
        raise OperatorError(f"Kafka refuses this consumer: {error.str()}", "see the log of the broker")
    log.warning("kafka.consumer", error=error.str())
