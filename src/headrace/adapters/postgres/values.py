"""Python's values as PostgreSQL takes them in statements of an application: a list or dictionary is JSON, a tuple an
array. What the driver knows by itself stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from psycopg.types.json import Jsonb


def stored_values(values: Mapping[str, object]) -> dict[str, Any]:
    return {name: _stored(value) for name, value in values.items()}


def _stored(value: object) -> object:
    if isinstance(value, list | dict):
        return Jsonb(value, dumps=msgspec.json.encode)
    if isinstance(value, tuple):
        return list(value)
    return value
