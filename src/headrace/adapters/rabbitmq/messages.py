"""Events on the wire, and messages of anybody as events.

An event's id is the `message_id`, its topic the routing key, its headers are headers. What AMQP has no place for goes
into headers that begin with `x-headrace-`; they are ours and are not shown to consumers. A message of somebody else
needs none of it: what is missing is derived, and headers of any type are kept as text.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pamqp import encode
from pamqp.commands import Basic

from headrace.adapters.rabbitmq.codec import SHORT_BYTES_MAX, Arrived, Brief, Outgoing, read_brief, write_properties
from headrace.core.deliveries import Delivery
from headrace.core.events import Event

OURS = "x-headrace-"
EVENT_ID, TOPIC, KEY = OURS + "event-id", OURS + "topic", OURS + "key"
HAPPENED_AT, DUE_AT, DELAY_S = OURS + "happened-at", OURS + "due-at", OURS + "delay-s"
FAILURES, DELIVERIES = OURS + "failures", OURS + "deliveries"
REASON, SUBSCRIPTION, DIED_AT = OURS + "reason", OURS + "subscription", OURS + "died-at"
SHOWN_REASON, OWN_REASON = "reason", OURS + "own-reason"
"""Readers of dead letters look for the reason under the plain name; what a message had there itself is kept."""
DELIVERY_COUNT = "x-delivery-count"
PERSISTENT = 2
HAS_DELAY = DUE_AT.encode()


def outgoing(exchange: str, routing_key: str, event: Event, extra: Mapping[str, str]) -> Outgoing:
    """How an event is written."""
    headers = {**event.headers, **extra}
    if event.key:
        headers[KEY] = event.key
    seconds = int(event.happened_at)
    if event.happened_at != seconds:
        headers[HAPPENED_AT] = repr(event.happened_at)
    message_id = event.event_id
    if len(message_id) * 4 > SHORT_BYTES_MAX and len(message_id.encode()) > SHORT_BYTES_MAX:
        headers[EVENT_ID], message_id = message_id, digest(message_id.encode())
    written = write_properties(message_id, seconds, headers)
    return Outgoing(exchange, routing_key, message_id, written, event.body)


def delivery_of(message: Arrived, subscription: str, fence: int) -> Delivery:
    """A message in somebody's hands, whoever sent it. RabbitMQ says that a message was delivered before; only quorum
    queues say how often, and what we gave back ourselves carries its count."""
    brief = read_brief(message.written)
    headers = brief.headers or {}
    before = number_of(headers.get(DELIVERY_COUNT), float(message.redelivered)) + number_of(headers.get(DELIVERIES))
    failures = int(number_of(headers.get(FAILURES)))
    return Delivery(subscription, message.tag, fence, event_of(message, brief), int(before) + 1, failures)


def event_of(message: Arrived, read: Brief | None = None) -> Event:
    """What a message tells."""
    brief = read or read_brief(message.written)
    headers = brief.headers or {}
    topic = text_of(headers[TOPIC]) if TOPIC in headers else message.routing_key
    event_id = text_of(headers[EVENT_ID]) if EVENT_ID in headers else brief.message_id
    return Event(
        event_id=event_id or _derived_id(message, topic, brief),
        topic=topic,
        body=message.body,
        key=text_of(headers.get(KEY)),
        headers={name: text_of(value) for name, value in headers.items() if not name.startswith(OURS)},
        happened_at=number_of(headers.get(HAPPENED_AT), brief.timestamp),
    )


def _derived_id(message: Arrived, topic: str, brief: Brief) -> str:
    """An id that follows from the content, so that a repeat has the same."""
    return "amqp-" + digest(b"\0".join((topic.encode(), repr(brief.timestamp).encode(), message.body)))


def wait_of(message: Arrived, now: float) -> float:
    """For how long a message that was given back with a delay must wait; 0 for all others. Clocks may differ: it is
    never longer than the delay itself."""
    if HAS_DELAY not in message.written:
        return 0.0
    headers = read_brief(message.written).headers or {}
    return min(number_of(headers.get(DUE_AT)) - now, number_of(headers.get(DELAY_S)))


def again(message: Arrived, queue: str, changes: Mapping[str, str | None]) -> Outgoing:
    """The same message once more, to a queue, with some headers set and others (None) removed."""
    event = event_of(message)
    properties = message.properties()
    headers: dict[str, Any] = {**(properties.headers or {}), TOPIC: event.topic, **changes}
    for name in (DELIVERY_COUNT, *(name for name, value in changes.items() if value is None)):
        headers.pop(name, None)
    properties.headers, properties.delivery_mode = headers, PERSISTENT
    # The broker refuses a message in the name of another user than the one who sends it.
    properties.user_id, properties.cluster_id = None, ""
    if not properties.message_id:
        properties.message_id = event.event_id
    if DIED_AT in headers:
        properties.expiration = None
    return Outgoing("", queue, properties.message_id, write_any(properties), message.body)


def write_any(properties: Basic.Properties) -> bytes:
    """A header of somebody else may be such that it can be read and not written; then it goes as text."""
    headers = properties.headers or {}
    for name, value in headers.items():
        try:
            encode.encode_table_value(value)
        except (ValueError, TypeError, OverflowError):
            headers[name] = text_of(value)
    return properties.marshal()


def text_of(value: object) -> str:
    """A header of any AMQP type as text."""
    match value:
        case str():
            return value
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case bytes() | bytearray():
            return bytes(value).decode("utf-8", "backslashreplace")
        case datetime():
            return value.isoformat()
        case dict() | list():
            return json.dumps(value, default=text_of, ensure_ascii=False)
        case _:
            return str(value)


def number_of(value: object, otherwise: float = 0.0) -> float:
    """A number that somebody wrote into a header, if it is one."""
    if value is None:
        return otherwise
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return otherwise
    return number if math.isfinite(number) else otherwise


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
