"""Fields of a payload, checked where the job is created and again where it is run."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from headrace.errors import InvalidPayload


def refuse_others(payload: Mapping[str, Any], known: Collection[str]) -> None:
    """A mistyped field would otherwise be ignored."""
    others = sorted(payload.keys() - {"type", *known})
    if others:
        raise InvalidPayload(f"payload.{others[0]} is not known to this type", f"fields: {', '.join(known) or 'none'}")


def text_of(payload: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = payload.get(name, default)
    if not isinstance(value, str) or not value:
        raise InvalidPayload(f"payload.{name} must be a text", f'write "{name}": "…"')
    return value


def number_of(payload: Mapping[str, Any], name: str, most: float) -> float:
    value = payload.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidPayload(f"payload.{name} must be a number", f'write "{name}": 1.5')
    if not 0 <= value <= most:
        raise InvalidPayload(f"payload.{name} = {value:g} is not from 0 to {most:g}")
    return float(value)


def mapping_of(payload: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = payload.get(name, {})
    if not isinstance(value, dict):
        raise InvalidPayload(f"payload.{name} must be an object", f'write "{name}": {{…}}')
    return value


def texts_of(payload: Mapping[str, Any], name: str) -> list[str]:
    value = payload.get(name)
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise InvalidPayload(f"payload.{name} must be a list of texts", f'write "{name}": ["…"]')
    if any("\0" in each for each in value):
        raise InvalidPayload(f"payload.{name} holds a NUL character")
    return list(value)
