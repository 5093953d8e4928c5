"""Payloads and times as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeGuard

import msgspec

from headrace.errors import InvalidPayload

_TYPE = re.compile(r"[\w.-]{1,64}")
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]
"""A time from 1970 to 9999 as a cursor holds it."""


def time_text(moment: datetime | None) -> str | None:
    """RFC 3339 with milliseconds, in UTC."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def payload_text(payload: Mapping[str, Any]) -> str:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def check_readable(payload: Mapping[str, Any]) -> None:
    """Refuse what Python writes and others cannot read, in JSON and in UTF-8."""
    try:
        json.dumps(payload, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise InvalidPayload("payload: a text in it is no Unicode", "a surrogate alone is no character") from None
    except ValueError:
        raise InvalidPayload("payload: a number in it is not finite", "JSON has no NaN and no Infinity") from None


def payload_type(text: str | None) -> str | None:
    """The type of a payload, for people; None if it has none, or one that no handler could have."""
    payload = payload_value(text)
    kind = payload.get("type") if isinstance(payload, dict) else None
    return kind if is_type(kind) else None


def is_type(kind: object) -> TypeGuard[str]:
    """Whether a handler could have this name: anything else may be whatever somebody has put in its place."""
    return isinstance(kind, str) and _TYPE.fullmatch(kind) is not None


def payload_value(text: str | None) -> Any:
    """A payload as JSON; what another program wrote may be any text, also one that is nested too deep to be read."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
