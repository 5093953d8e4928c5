"""Events: what was committed and is to be told, at least once and always under the same id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.core.errors import CallerError, TooLarge
from headrace.core.parcels import KEY_CHARS_MAX, PAYLOAD_BYTES_MAX
from headrace.core.topics import check_topic

HEADERS_MAX = 50
HEADER_CHARS_MAX = 4_000
PUBLISH_EVENTS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Event:
    """One event. The same `event_id` is the same event, whoever tells it and however often.

    Events with the same `key` are told in the order in which they were committed; the key of a job's own events is
    the job. An event without a key stands alone. `headers` travel beside the body, `traceparent` among them.
    """

    event_id: str
    topic: str
    body: bytes = b""
    key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    happened_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Events that one relay holds under one fence, in the order in which they must be told."""

    fence: int = 0
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the bus is behind the account: events nobody was told yet, and the age of the oldest."""

    unpublished: int = 0
    oldest_s: float = 0.0


def check_event(event: Event) -> None:
    """Refuse what no bus would take, before it is committed."""
    check_topic(event.topic)
    for name, text in (("event_id", event.event_id), ("key", event.key)):
        if len(text) > KEY_CHARS_MAX:
            raise TooLarge(f"an {name} of {len(text):,} characters is over KEY_CHARS_MAX = {KEY_CHARS_MAX}")
    if not event.event_id:
        raise CallerError("an event has no event_id", "derive it from what happened, so that a repeat has the same")
    if len(event.body) > PAYLOAD_BYTES_MAX:
        raise TooLarge(
            f"a body of {len(event.body):,} bytes is over PAYLOAD_BYTES_MAX = {PAYLOAD_BYTES_MAX:,}",
            "store the bytes elsewhere and tell where they are",
        )
    if len(event.headers) > HEADERS_MAX:
        raise TooLarge(f"{len(event.headers)} headers are over HEADERS_MAX = {HEADERS_MAX}")
    if any(len(name) + len(value) > HEADER_CHARS_MAX for name, value in event.headers.items()):
        raise TooLarge(f"a header of {event.event_id} is over HEADER_CHARS_MAX = {HEADER_CHARS_MAX:,}")
