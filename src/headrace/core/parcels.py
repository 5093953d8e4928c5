"""Items on their way into a store: encoded payloads packed by the hundred.

A parcel becomes one chunk. It is bounded by count and by bytes, so that a claim of a whole chunk is
always a cheap read and a small commit.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.core.errors import InvalidPayload, TooLarge
from headrace.core.texts import is_storable

PARCEL_ITEMS_MAX = 500
PARCEL_BYTES_MAX = 256 * 1024
PAYLOAD_BYTES_MAX = 1024 * 1024
KEY_CHARS_MAX = 500
DELAY_S_MAX = 100 * 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class Parcel:
    """Encoded items for one stage. `ends[i]` is where item i ends in `payload`.

    `number` is unique among the parcels that one sender stages ahead of its settlement: a repeat of
    the same number is the same parcel.
    """

    stage: str
    payload: bytes
    ends: Sequence[int]
    keys: tuple[str | None, ...] | None = None
    depth: int = 0
    delay_s: float = 0.0
    number: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delay_s", bounded_s(self.delay_s))

    @property
    def count(self) -> int:
        return len(self.ends)


def bounded_s(delay_s: float) -> float:
    """A delay that every store can add to its clock: what is past or no number is none, what is endless is long."""
    return min(max(0.0, delay_s), DELAY_S_MAX)


@dataclass(frozen=True, slots=True)
class Encoded:
    """One encoded item."""

    payload: bytes
    key: str | None = None


def pack(stage: str, items: Iterable[Encoded], depth: int = 0, delay_s: float = 0.0) -> Iterator[Parcel]:
    """Cut a stream of items into parcels, numbered from 0."""
    buffer, ends, number = bytearray(), array("I"), 0
    keys: list[str | None] = []
    for item in items:
        check_item(item)
        if ends and (len(ends) >= PARCEL_ITEMS_MAX or len(buffer) + len(item.payload) > PARCEL_BYTES_MAX):
            yield Parcel(stage, bytes(buffer), ends, _keys(keys), depth, delay_s, number)
            buffer, ends, keys, number = bytearray(), array("I"), [], number + 1
        buffer += item.payload
        ends.append(len(buffer))
        keys.append(item.key)
    if ends:
        yield Parcel(stage, bytes(buffer), ends, _keys(keys), depth, delay_s, number)


def check_item(item: Encoded) -> None:
    if len(item.payload) > PAYLOAD_BYTES_MAX:
        raise TooLarge(
            f"a payload of {len(item.payload):,} bytes is over PAYLOAD_BYTES_MAX = {PAYLOAD_BYTES_MAX:,}",
            "store the bytes elsewhere and send where they are",
        )
    if item.key is not None and len(item.key) > KEY_CHARS_MAX:
        raise TooLarge(f"a key of {len(item.key):,} characters is over KEY_CHARS_MAX = {KEY_CHARS_MAX}")
    check_keys((item.key,))


def check_keys(keys: Iterable[str | None]) -> None:
    """Refuse keys and names that not every store could keep as they are."""
    for key in keys:
        if key is not None and not is_storable(key):
            raise InvalidPayload(
                f"the key {key!r} holds characters that cannot be stored: NUL or half a surrogate pair"
            )


def _keys(keys: list[str | None]) -> tuple[str | None, ...] | None:
    return tuple(keys) if any(key is not None for key in keys) else None
