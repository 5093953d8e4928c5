"""From delivery reports, which a thread of the Kafka client gets one by one, to the event loop, once for each batch.

There is no task and no future for a record: reports count a batch down in the thread that polls, and batches that came
to their end are handed over together, by one wake-up of the loop for as many as have gathered.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message

from headrace_pm.kafka.records import BatchRecords


@dataclass(slots=True, eq=False)
class BatchDelivery:
    """The records of one batch on their way. `acknowledged` or `failed` is called on the event loop, once; neither if
    it is not `wanted` any more."""

    records: BatchRecords
    acknowledged: Callable[[], None]
    failed: Callable[[Exception], None]
    wanted: Callable[[], bool] = lambda: True
    error: KafkaError | None = None
    carrier: object = None
    _left: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, carrier: object) -> None:
        """All its records are handed to this client now, for the first time or again."""
        self.carrier, self.error, self._left = carrier, None, len(self.records.values)

    def report(self, error: KafkaError | None, count: int = 1) -> bool:
        """So many records came to an end; whether these were the last ones."""
        with self._lock:
            self.error = error or self.error
            self._left -= count
            return self._left == 0


class DeliveryBridge:
    """Where deliveries that came to their end wait for the loop. `settle` is called there with each."""

    def __init__(self, settle: Callable[[BatchDelivery], None]) -> None:
        self._settle, self._loop = settle, asyncio.get_running_loop()
        self._ended: deque[BatchDelivery] = deque()
        self._is_woken = False

    def reporter(self, delivery: BatchDelivery) -> Callable[[KafkaError | None, Message], None]:
        """What the client calls for each record of a delivery."""

        def report(error: KafkaError | None, _message: Message) -> None:
            if delivery.report(error):
                self.end(delivery)

        return report

    def end(self, delivery: BatchDelivery) -> None:
        """A delivery came to its end; called in any thread."""
        self._ended.append(delivery)
        # Set before the call, so that of all that end before the loop runs only the first one wakes it.
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        # Lowered before looking: what is added while this runs wakes the loop again.
        self._is_woken = False
        while self._ended:
            self._settle(self._ended.popleft())


class DeliveryRoom:
    """How much may be on its way at once: so many batches, and so many bytes. Whoever has no room waits for it, in
    order; one batch that is larger than everything goes alone."""

    def __init__(self, batches_max: int, bytes_max: int) -> None:
        self._batches_max, self._bytes_max = batches_max, bytes_max
        self.batches, self.bytes = 0, 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        if not self._waiting and self._fits(size):
            self._add(size)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(size)
            else:
                self._waiting.remove((size, turn))
                # The one behind may be smaller.
                self._let_in()
            raise

    def give_back(self, size: int) -> None:
        self.batches, self.bytes = self.batches - 1, self.bytes - size
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            self._add(size)
            turn.set_result(None)

    def _fits(self, size: int) -> bool:
        return self.batches == 0 or (self.batches < self._batches_max and self.bytes + size <= self._bytes_max)

    def _add(self, size: int) -> None:
        self.batches, self.bytes = self.batches + 1, self.bytes + size
