"""Events as they stand on the wire: the routing key is the name, the body flat JSON. What we do not know is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import uuid_utils

from headrace.ports import Event
from headrace_matching.events.names import PHASE_ENTERED, Phase
from headrace_matching.events.schemas import EventSchemas, MalformedEvent, published

EVENT_BYTES_MAX = 262_144
_UUID7_AT = 14
"""Where a canonical UUID says its version."""
_decode = msgspec.json.Decoder(type=dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


def new_event_id() -> str:
    return str(uuid_utils.uuid7())


def read(name: str, body: bytes, schemas: EventSchemas) -> dict[str, Any]:
    """The document of a message, or `MalformedEvent` with what is wrong."""
    if len(body) > EVENT_BYTES_MAX:
        raise MalformedEvent(f"the body has {len(body):,} bytes, over EVENT_BYTES_MAX = {EVENT_BYTES_MAX:,}")
    try:
        document = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedEvent(f"not a JSON object: {error}") from None
    schemas.check(name, document)
    return document


def is_uuid7(event_id: str) -> bool:
    """Whether an id that passed a schema is what the strict one asks for."""
    return event_id[_UUID7_AT] == "7" and event_id[19] in "89ab" and event_id == event_id.lower()


def written(name: str, document: Mapping[str, Any]) -> Event:
    """An event to publish, held to its schema. The job is its key: events of a job keep their order."""
    published().check(name, document)
    job_id = str(document["job_id"])
    return Event(bus_id(name, job_id, str(document["event_id"])), name, _encode(document), job_id)


def bus_id(name: str, job_id: str, event_id: str) -> str:
    """Under which a bus knows a repeat: the same `event_id` under another name or job is another event."""
    return f"{event_id}.{name}.{job_id}"


def per_job(name: str, job_id: str, event_id: str) -> Event:
    return written(name, {"job_id": job_id, "event_id": event_id})


def per_asset(name: str, job_id: str, asset_id: str, event_id: str) -> Event:
    return written(name, {"job_id": job_id, "asset_id": asset_id, "event_id": event_id})


def phase_entered(job_id: str, phase: Phase, event_id: str, more: Mapping[str, Any]) -> Event:
    """`more` is what the phase's workers need to begin: the query and its sources with `collection`."""
    return written(PHASE_ENTERED, {"job_id": job_id, "phase": phase.value, "event_id": event_id, **more})
