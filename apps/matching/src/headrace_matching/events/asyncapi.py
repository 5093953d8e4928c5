"""The AsyncAPI document of the events, made of their schemas: what a foreign worker is written from.

One channel per event: its address is the routing key on the one topic exchange.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace_matching.events.names import (
    CLOSED_BY,
    EVIDENCES_GENERATED,
    MATCH_RESULT,
    MATCHINGS_PROCESSED,
    NAMES,
    PHASE_ENTERED,
    PRODUCTS_COLLECTED,
    VIDEOS_COLLECTED,
)
from headrace_matching.events.schemas import schema

ASYNCAPI = "3.0.0"
VERSION = "1.0.0"


def document(exchange: str) -> dict[str, Any]:
    """The whole document, as JSON has it."""
    return {
        "asyncapi": ASYNCAPI,
        "info": {
            "title": "matching",
            "version": VERSION,
            "description": "Products found in videos. A phase ends when every event that closes it has come once.",
        },
        "defaultContentType": "application/json",
        "channels": {name: _channel(name, exchange) for name in NAMES},
        "operations": dict(_operation(name) for name in NAMES),
        "components": {"messages": {name: _message(name) for name in NAMES}},
    }


def publisher(name: str) -> str:
    """Which service publishes an event."""
    known: Mapping[str, str] = {
        PRODUCTS_COLLECTED: "products",
        VIDEOS_COLLECTED: "videos",
        MATCHINGS_PROCESSED: "matcher",
        MATCH_RESULT: "matcher",
        EVIDENCES_GENERATED: "evidence",
        PHASE_ENTERED: "api",
    }
    return known.get(name) or ("embedding" if ".embedding" in name else "keypoint")


def _channel(name: str, exchange: str) -> dict[str, Any]:
    closes = [phase.value for phase, names in CLOSED_BY.items() if name in names]
    return {
        "address": name,
        "messages": {name: {"$ref": f"#/components/messages/{name}"}},
        "description": f"closes the phase {closes[0]}" if closes else "moves no phase",
        "bindings": {
            "amqp": {
                "is": "routingKey",
                "exchange": {"name": exchange, "type": "topic", "durable": True, "autoDelete": False},
            }
        },
    }


def _operation(name: str) -> tuple[str, dict[str, Any]]:
    return f"{publisher(name)}/{name}", {
        "action": "send",
        "summary": f"published by {publisher(name)}",
        "channel": {"$ref": f"#/channels/{name}"},
        "messages": [{"$ref": f"#/channels/{name}/messages/{name}"}],
    }


def _message(name: str) -> dict[str, Any]:
    payload = schema(name)
    form = payload["$schema"].removeprefix("https://json-schema.org/draft/").removesuffix("/schema")
    return {
        "name": name,
        "title": payload["title"],
        "summary": payload["description"],
        "contentType": "application/json",
        "payload": {"schemaFormat": f"application/schema+json;version={form}", "schema": payload},
    }
