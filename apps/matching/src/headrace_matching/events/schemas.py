"""The JSON Schema of each event: `schemas/events/<name>.json`, with underscores for dots.

The files are the contract with workers of others. What is published is held to them, and so is what is received.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec

from headrace_matching.events.names import NAMES

WORDS_MAX = 300
ANY_UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


class MalformedEvent(Exception):
    """A message that nothing can be done with; the text says why."""


def folder() -> Traversable:
    """In the wheel beside the code, in a checkout beside `src`."""
    packed = resources.files("headrace_matching") / "schemas" / "events"
    return packed if packed.is_dir() else Path(__file__).parents[3] / "schemas" / "events"


def file_name(name: str) -> str:
    return f"{name.replace('.', '_')}.json"


def schema(name: str) -> dict[str, Any]:
    """The schema of one event, as it stands in its file."""
    return msgspec.json.decode((folder() / file_name(name)).read_bytes(), type=dict[str, Any])


class EventSchemas:
    """Judges documents. With `any_ids` an `event_id` may be a UUID of any version, for workers that were not changed
    yet."""

    def __init__(self, any_ids: bool = False) -> None:
        self.any_ids = any_ids
        self._judges = {name: jsonschema_rs.Draft202012Validator(self._schema(name)) for name in NAMES}

    def check(self, name: str, document: Mapping[str, Any]) -> None:
        """`MalformedEvent` if this is no `name`: the first thing that its schema finds wrong."""
        judge = self._judges[name]
        if not judge.is_valid(document):
            raise MalformedEvent(_words(next(iter(judge.iter_errors(document)))))

    def _schema(self, name: str) -> dict[str, Any]:
        found = schema(name)
        if self.any_ids:
            found["properties"]["event_id"]["pattern"] = ANY_UUID
        return found


@cache
def published() -> EventSchemas:
    """The schemas that our own events are held to."""
    return EventSchemas()


def _words(error: jsonschema_rs.ValidationError) -> str:
    place = ".".join(str(part) for part in error.instance_path)
    return f"{place}: {error.message}"[:WORDS_MAX] if place else error.message[:WORDS_MAX]
