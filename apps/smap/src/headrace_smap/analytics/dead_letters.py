"""Dead letters: the message of a post that failed, byte for byte, with what is known about it in headers.

They go to the queue `analytics.errors` and are there before the post is counted. The id of a letter follows from its
message: a letter that is written again is known as the same. While a batch is tried again and again, because a server
is away, its letters are not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import cast

import structlog

from headrace.errors import TooLarge
from headrace.ports import Bus, Event, QueueBus, Subscription
from headrace_smap.analytics.posts import Fault, HandledPost
from headrace_smap.envelope import DATA_COLLECTED, ERRORS_QUEUE, derived_id, traced

HEADER_CHARS_MAX = 1_000
UNKNOWN = Fault("unknown", "")

log = structlog.get_logger("smap")


class Letters:
    """Through the broker's default exchange, or as a subscription of the store's own bus."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._queues = cast("QueueBus", bus) if hasattr(bus, "send") else None
        self._sent: set[str] = set()

    async def prepare(self) -> None:
        if self._queues is None:
            await self._bus.subscribe(Subscription(ERRORS_QUEUE, (ERRORS_QUEUE,)))
        else:
            await self._queues.send(ERRORS_QUEUE, [])

    async def send(self, posts: Sequence[HandledPost]) -> None:
        """Returns when they are safe; a letter that was sent is not sent again before its post is over."""
        unsent = [post for post in posts if letter_id(post.body) not in self._sent]
        if not unsent:
            return
        try:
            await self._send([self._letter(post) for post in unsent])
        except TooLarge as error:
            if len(unsent) > 1:
                for post in unsent:
                    await self.send([post])
                return
            # It came through some bus, but this one does not take it. The post is counted all the same.
            log.error("letter.refused", project=unsent[0].project, error=str(error))
        self._sent |= {letter_id(post.body) for post in unsent}

    def over(self, posts: Sequence[HandledPost]) -> None:
        """Nothing more will be done with these: should they come again, it is another time."""
        if self._sent:
            self._sent -= {letter_id(post.body) for post in posts if post.fault}

    async def _send(self, letters: list[Event]) -> None:
        if self._queues is None:
            await self._bus.publish(letters)
        else:
            await self._queues.send(ERRORS_QUEUE, letters)

    def _letter(self, post: HandledPost) -> Event:
        fault = post.fault or UNKNOWN
        headers = {
            "reason": fault.reason,
            "rule": fault.rule,
            "exception": fault.exception,
            "attempt": str(post.deliveries),
            "project": post.project,
            "path": _printable(post.path),
        }
        topic = ERRORS_QUEUE if self._queues is None else DATA_COLLECTED
        shown = {name: value[:HEADER_CHARS_MAX] for name, value in headers.items()}
        return traced(Event(letter_id(post.body), topic, post.body, post.project, shown), post.traceparent)


def letter_id(body: bytes) -> str:
    return derived_id(ERRORS_QUEUE, hashlib.blake2b(body, digest_size=16).hexdigest())


def _printable(path: str) -> str:
    return path if path.isprintable() else path.encode("unicode_escape").decode()
