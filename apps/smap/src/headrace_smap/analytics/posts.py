"""A post on its way through the service, from the message that told of it to its end."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from headrace_smap.analytics.modules.posts import storable

REASON_CHARS_MAX = 500
KEYWORD_CHARS_MAX = 200


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """Why a post failed: `rule` is the short name of what is wrong, `exception` what was raised, if anything was."""

    rule: str
    reason: str
    exception: str = ""


class AnalysisResult(msgspec.Struct, frozen=True, array_like=True):
    """What the analysis found: the row as a JSON list, and what the event tells of it."""

    row: bytes
    post_id: str
    platform: str
    sentiment: str
    risk: str
    analyzed_at: str


class HandledPost(msgspec.Struct):
    """One post of a project, named by its `item`. It has ended when it has a fault, has been found or is `spared`.

    `suspect`: an earlier consumer was lost while it held this message. `spared`: its project was cancelled.
    """

    project: str
    item: str
    path: str
    body: bytes
    told_at: str = ""
    crawled_at: str = ""
    keyword: str = ""
    deliveries: int = 1
    suspect: bool = False
    spared: bool = False
    traceparent: str = ""
    raw: bytes | None = None
    fault: Fault | None = None
    found: AnalysisResult | None = None

    @property
    def name(self) -> tuple[str, str]:
        return self.project, self.item


def item_of_message(body: bytes) -> str:
    """The identity of a post whose message names no path: a repeat has the same body."""
    return f"message:{_digest(body)}"


def fault_of(rule: str, error: BaseException) -> Fault:
    """What an exception says and was noted with, in one line of bounded length."""
    words = [word for text in (*getattr(error, "__notes__", ()), str(error)) for word in text.split()]
    told = storable(" ".join(words)[:REASON_CHARS_MAX])
    return Fault(rule, told or type(error).__name__, type(error).__name__)


def text_of(value: Any, chars_max: int) -> str:
    """A text of somebody else, as a database takes it; what is none is empty."""
    return storable(value[:chars_max]) if isinstance(value, str) else ""


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
