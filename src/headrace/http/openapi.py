"""The description of a service as its callers meet it: errors are problems, and every POST takes an Idempotency-Key.

The framework describes errors of its own that are never sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from headrace.http.idempotency import KEY_CHARS_MAX
from headrace.http.problems import MEDIA_TYPE

_FRAMEWORKS = ("HTTPValidationError", "ValidationError")
_TEXT = {"type": "string"}
_PROBLEM = {
    "title": "Problem",
    "description": "RFC 9457. `type` is for programs and never changes; `detail` and `hint` are for people.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "examples": ["urn:headrace:problem:not-found"]},
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "instance": {"type": "string", "description": "The path that was asked for."},
        "hint": _TEXT,
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["where", "detail"],
                "properties": {"where": _TEXT, "detail": _TEXT},
            },
        },
    },
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same request under the same key is one change and one answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX},
}


def complete(document: dict[str, Any]) -> None:
    """Write into a description what is the same for every route. What a route says itself stands."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in _FRAMEWORKS:
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM
    for path, operations in document.get("paths", {}).items():
        for method, operation in operations.items():
            answers = operation["responses"]
            if _is_frameworks(answers.get("422")):
                del answers["422"]
            for status in _statuses(path, method, operation):
                answers.setdefault(str(status), _problem(HTTPStatus(status).phrase))
            answers.setdefault("default", _problem("Any other error"))
            if method == "post":
                operation.setdefault("parameters", []).append(_KEY)


def _statuses(path: str, method: str, operation: dict[str, Any]) -> Iterator[int]:
    yield 400
    if "{" in path:
        yield 404
    if method != "get":
        yield 409
    if "requestBody" in operation:
        yield from (413, 415)
    if "requestBody" in operation or operation.get("parameters") or method == "post":
        yield 422


def _is_frameworks(answer: dict[str, Any] | None) -> bool:
    content = (answer or {}).get("content", {}).get("application/json", {})
    return bool(content.get("schema", {}).get("$ref", "").endswith(_FRAMEWORKS))


def _problem(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {MEDIA_TYPE: {"schema": schema}}}
