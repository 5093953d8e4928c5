"""The events of smap, as they stand on the wire.

Three forms are read: the envelope with a `timestamp`, without one, and the flat `{"project_id": …}`. What this code
does not know is kept. Events whose repeat must be recognised have an id derived from what they tell of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
import uuid_utils

from headrace.http import TRACEPARENT
from headrace.ports import Event
from headrace_smap.values import Standing

EXCHANGE = "smap.events"
PROJECT_CREATED = "project.created"
DATA_COLLECTED = "data.collected"
ANALYSIS_FINISHED = "analysis.finished"
JOB_COMPLETED = "job.completed"

COLLECTOR_QUEUE = "smap.collector"
ANALYTICS_QUEUE = "smap.analytics"
INSIGHT_QUEUE = "smap.insight"
NOTIFICATION_QUEUE = "smap.notification"
COMPLETIONS_QUEUE = "smap.completions"
ERRORS_QUEUE = "analytics.errors"

PROJECT_CHARS_MAX = 200
_COLLECTED = frozenset(("project_id", "minio_path", "platform", "crawled_at"))
_SPACE = uuid_utils.UUID("b9a6c3f2-6d0f-5c39-9d43-8d3a4f1c7e55")
_decode = msgspec.json.Decoder(type=dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class Malformed(Exception):
    """A message that nothing can be done with; `rule` names what is wrong with it."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule, self.reason = rule, reason


class Message(msgspec.Struct, frozen=True):
    """An event of anybody. `event_id` may be missing, and two events may share one: it identifies nothing."""

    project: str
    payload: Mapping[str, Any]
    event_id: str = ""
    timestamp: str = ""
    beside: Mapping[str, Any] = {}
    """What else stands beside the payload."""


class Collected(msgspec.Struct, frozen=True):
    """A raw post lies at `minio_path`. What only others know is kept: `rest` in the payload, `beside` beside it."""

    project: str
    minio_path: str
    platform: str = ""
    crawled_at: str = ""
    rest: Mapping[str, Any] = {}
    beside: Mapping[str, Any] = {}


def read(body: bytes) -> Message:
    """Understand a message in any of its forms, or say what is wrong."""
    try:
        document = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed("event_json", f"not a JSON object: {error}") from None
    payload, event_id, timestamp = (document.pop(name, None) for name in ("payload", "event_id", "timestamp"))
    beside = document
    if not isinstance(payload, dict):
        if "project_id" not in document:
            raise Malformed("event_payload", "neither a payload nor a project_id")
        payload, beside = document, {}
    project = payload.get("project_id", beside.get("project_id"))
    if not isinstance(project, str) or not project.strip():
        raise Malformed("event_project", "no project_id")
    if len(project) > PROJECT_CHARS_MAX or not project.isprintable():
        raise Malformed("event_project", f"project_id is not a printable text of at most {PROJECT_CHARS_MAX}")
    return Message(project, payload, _text(event_id), _text(timestamp), beside)


def collected(message: Message) -> Collected:
    """The payload of `data.collected`. A platform is compared without case; a time that is no text is kept as one."""
    payload = message.payload
    path = payload.get("minio_path")
    if not isinstance(path, str) or not path:
        raise Malformed("event_path", "no minio_path")
    rest = {name: value for name, value in payload.items() if name not in _COLLECTED}
    platform, crawled_at = _text(payload.get("platform")).lower(), _text(payload.get("crawled_at"))
    return Collected(message.project, path, platform, crawled_at, rest, message.beside)


def project_created(project: str, payload: Mapping[str, Any], at: datetime) -> Event:
    """`payload` holds keywords, targets and date_range."""
    return _event(derived_id(PROJECT_CREATED, project), PROJECT_CREATED, {"project_id": project, **payload}, at)


def data_collected(post: Collected, at: datetime, again: str = "") -> Event:
    """`again` tells a wanted repetition from a mere repeat: a retry is not the first telling."""
    payload = {
        "project_id": post.project,
        "platform": post.platform.upper(),
        "minio_path": post.minio_path,
        "crawled_at": post.crawled_at,
        **post.rest,
    }
    event_id = derived_id(DATA_COLLECTED, post.project, post.minio_path, again)
    return _event(event_id, DATA_COLLECTED, payload, at, post.beside)


def analysis_finished(project: str, minio_path: str, result: Mapping[str, Any], at: datetime) -> Event:
    """`result` holds post_id, platform, sentiment, risk, analyzed_at."""
    payload = {"project_id": project, "minio_path": minio_path, **result}
    return _event(derived_id(ANALYSIS_FINISHED, project, minio_path), ANALYSIS_FINISHED, payload, at)


def completed_id(project: str) -> str:
    """One per project, so that a repeat is known as such."""
    return derived_id(JOB_COMPLETED, project)


def job_completed(project: str, counts: Standing, at: datetime) -> Event:
    """For readers of the envelope and of the flat form. `at` is when the line was crossed: repeats are equal."""
    payload = {"project_id": project, "total": counts.total, "done": counts.done, "errors": counts.errors}
    body = {"event_id": completed_id(project), "timestamp": moment(at), "project_id": project, "payload": payload}
    return Event(completed_id(project), JOB_COMPLETED, _encode(body), project, happened_at=at.timestamp())


def traced(event: Event, traceparent: str) -> Event:
    """The same event as a part of this trace; of none if it is empty."""
    return replace(event, headers={**(event.headers or {}), TRACEPARENT: traceparent}) if traceparent else event


def derived_id(*names: str) -> str:
    """The same names give the same id."""
    return f"evt_{uuid_utils.uuid5(_SPACE, chr(0).join(names))}"


def new_id() -> str:
    return f"evt_{uuid_utils.uuid7()}"


@lru_cache(64)
def moment(at: datetime) -> str:
    """A time as the specification writes it: UTC, with a Z. A batch has one for all its events."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _event(
    event_id: str, topic: str, payload: Mapping[str, Any], at: datetime, beside: Mapping[str, Any] | None = None
) -> Event:
    body = {**(beside or {}), "event_id": event_id, "timestamp": moment(at), "payload": payload}
    return Event(event_id, topic, _encode(body), str(payload["project_id"]), happened_at=at.timestamp())


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _encode(value).decode()
