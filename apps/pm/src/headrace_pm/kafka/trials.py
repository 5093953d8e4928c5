"""Batches that a broker refused, sent once more by a client of their own, one at a time.

A client sends records of several batches in one request, and a broker refuses the whole of it for one bad record: its
error then stands at all of them. What is sent alone and refused again is at fault itself; the others are taken.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from headrace_pm.kafka.delivery import BatchDelivery
from headrace_pm.kafka.records import BatchRecords

REPORT_S = 0.1


class RecordTrials:
    """`connect` makes the client, `ended` is called on the event loop with what came of each."""

    def __init__(
        self,
        topic: str,
        connect: Callable[[], Producer],
        ended: Callable[[BatchDelivery, KafkaError | None], None],
        is_closed: threading.Event,
    ) -> None:
        self._topic, self._connect, self._ended, self._is_closed = topic, connect, ended, is_closed
        self._suspects: deque[BatchDelivery] = deque()
        self._trying: asyncio.Task[None] | None = None

    def add(self, delivery: BatchDelivery) -> None:
        self._suspects.append(delivery)
        if self._trying is None:
            self._trying = asyncio.ensure_future(self._try_all())

    async def close(self) -> None:
        """Those that were not tried are unknown; the event is set before."""
        if self._trying is not None:
            await self._trying

    async def _try_all(self) -> None:
        try:
            client = await asyncio.to_thread(self._connect)
        except KafkaException as refused:
            # Nobody was asked: they are sent again as what is unknown, and the next refusal tries anew.
            self._trying = None
            while self._suspects:
                self._ended(self._suspects.popleft(), refused.args[0])
            return
        try:
            while self._suspects:
                delivery = self._suspects.popleft()
                error = await asyncio.to_thread(self._outcome, client, delivery.records)
                self._ended(delivery, error)
        finally:
            self._trying = None
            await asyncio.to_thread(client.close)

    def _outcome(self, client: Producer, records: BatchRecords) -> KafkaError | None:
        errors: list[KafkaError] = []

        def report(error: KafkaError | None, _message: Any) -> None:
            if error is not None:
                errors.append(error)

        try:
            headers: list[tuple[str, str | bytes | None]] = [*records.headers]
            for value in records.values:
                client.produce(self._topic, value, records.key, headers=headers, on_delivery=report)
        except (BufferError, KafkaException):
            errors.append(KafkaError(KafkaError._QUEUE_FULL))
        while client.flush(REPORT_S):
            if self._is_closed.is_set():
                client.purge()
        return errors[0] if errors else None
