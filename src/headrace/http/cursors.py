"""Pages of a list that grows while it is read: a cursor says after which row to go on, never how many to leave out."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.http.problems import Problem

PAGE_MAX = 200
PAGE_DEFAULT = 50
CURSOR_CHARS_MAX = 1_024
T = TypeVar("T")


def encode_cursor(*values: str | int | float) -> str:
    """Where a page ended, as text that clients hand back as it is."""
    return base64.urlsafe_b64encode(msgspec.json.encode(values)).rstrip(b"=").decode()


def decode_cursor(text: str, *kinds: Any) -> tuple[Any, ...]:
    """The values of a cursor, which must be of these kinds: types that msgspec reads, such as `UUID`, also with their
    bounds. A client can write any; what a list cannot go on from is refused here."""
    try:
        if len(text) > CURSOR_CHARS_MAX:
            raise ValueError(len(text))
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        values: tuple[Any, ...] = msgspec.json.decode(raw, type=tuple[tuple(kinds)])  # type: ignore[misc]
        return values
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise Problem(400, "bad-cursor", "this is not a cursor of this list", hint="begin without a cursor") from None


def paged(rows: Sequence[T], limit: int, cursor_of: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """One page out of `limit + 1` rows, and the cursor of the next; the row too many tells that there is one."""
    return rows[:limit], cursor_of(rows[limit - 1]) if len(rows) > limit else None
