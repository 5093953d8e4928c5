"""Payloads and times as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def time_text(moment: datetime | None) -> str | None:
    """RFC 3339 with milliseconds, in UTC."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def payload_text(payload: Mapping[str, Any]) -> str:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def payload_value(text: str | None) -> Any:
    """A payload as JSON; what another program wrote may be any text."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
