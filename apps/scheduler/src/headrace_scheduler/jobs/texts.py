"""Payloads and times as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_TYPE = re.compile(r"[\w.-]{1,64}")


def time_text(moment: datetime | None) -> str | None:
    """RFC 3339 with milliseconds, in UTC."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def payload_text(payload: Mapping[str, Any]) -> str:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def payload_type(text: str | None) -> str | None:
    """The type of a payload, for people; None if it has none, or one that no handler could have."""
    payload = payload_value(text)
    kind = payload.get("type") if isinstance(payload, dict) else None
    return kind if isinstance(kind, str) and _TYPE.fullmatch(kind) else None


def payload_value(text: str | None) -> Any:
    """A payload as JSON; what another program wrote may be any text, also one that is nested too deep to be read."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
