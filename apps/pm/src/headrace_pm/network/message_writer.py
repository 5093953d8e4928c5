"""Writes Cap'n Proto messages by the layout of `counter.capnp`: in one segment, or in many with far pointers between.

For generated files and for tests; the reader shares nothing with it but the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

WORD = 8
_COUNTER = np.dtype([("id", "<i4"), ("unused", "<i4"), ("value", "<f8")])
_OBJECT_WORDS, _OBJECT_SIZE = 5, 3 | 2 << 16
_COUNTER_SIZE = 2
_TEXT, _COMPOSITE = 2, 7


class Pads(Enum):
    """How a pointer reaches another segment: by one word in front of its target, or by two in a place of their own,
    which is what a writer does that has no room left there."""

    SINGLE = 1
    DOUBLE = 2


@dataclass(frozen=True, slots=True)
class WrittenObject:
    """One object with its counters."""

    time: int
    duration: int
    location: bytes
    cell: int
    ids: NDArray[np.int32]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Place:
    segment: int
    word: int


class MessageWriter:
    """One message. A new segment is begun when the last one has as many words as are given; without a number all is in
    one."""

    def __init__(self, segment_words: int = 0, pads: Pads = Pads.SINGLE) -> None:
        self._segment_words, self._pads = segment_words, pads
        self._segments = [bytearray()]

    def write(self, unit: bytes, objects: Sequence[WrittenObject]) -> bytes:
        """The whole message, with its table of segments."""
        root = self._allocate(3)
        self._set(root, 2 << 48)
        self._text(self._after(root, 1), unit)
        first = self._list(self._after(root, 2), len(objects), _OBJECT_WORDS, _OBJECT_SIZE)
        for number, each in enumerate(objects):
            self._object(self._after(first, number * _OBJECT_WORDS), each)
        return self._framed()

    def _object(self, at: _Place, written: WrittenObject) -> None:
        for word, value in enumerate((written.time, written.duration & 0xFFFF_FFFF, written.cell)):
            self._set(self._after(at, word), value & (1 << 64) - 1)
        self._text(self._after(at, 3), written.location)
        counters = np.zeros(len(written.ids), _COUNTER)
        counters["id"], counters["value"] = written.ids, written.values
        first = self._list(self._after(at, 4), len(counters), 2, _COUNTER_SIZE)
        self._put(first, counters.tobytes())

    def _text(self, pointer: _Place, text: bytes) -> None:
        kind = 1 | (_TEXT | (len(text) + 1) << 3) << 32
        self._put(self._pointed(pointer, len(text) // WORD + 1, kind), text)

    def _list(self, pointer: _Place, count: int, words: int, size: int) -> _Place:
        """An empty composite list; the place of its first element."""
        tag = self._pointed(pointer, 1 + count * words, 1 | (_COMPOSITE | count * words << 3) << 32)
        self._set(tag, count << 2 | size << 32)
        return self._after(tag, 1)

    def _pointed(self, pointer: _Place, words: int, kind: int) -> _Place:
        """Room for so many words, to which the pointer leads."""
        last = len(self._segments) - 1
        if pointer.segment == last and self._has_room(words):
            target = self._allocate(words)
            self._set(pointer, kind | (target.word - pointer.word - 1 & 0x3FFF_FFFF) << 2)
        elif self._pads is Pads.SINGLE:
            pad = self._allocate(words + 1)
            target = self._after(pad, 1)
            self._set(pointer, 2 | pad.word << 3 | pad.segment << 32)
            self._set(pad, kind)
        else:
            target, pad = self._allocate(words), self._allocate(2)
            self._set(pointer, 2 | 4 | pad.word << 3 | pad.segment << 32)
            self._set(pad, 2 | target.word << 3 | target.segment << 32)
            self._set(self._after(pad, 1), kind)
        return target

    def _has_room(self, words: int) -> bool:
        used = len(self._segments[-1]) // WORD
        return not self._segment_words or not used or used + words <= self._segment_words

    def _allocate(self, words: int) -> _Place:
        if not self._has_room(words):
            self._segments.append(bytearray())
        segment = self._segments[-1]
        place = _Place(len(self._segments) - 1, len(segment) // WORD)
        segment.extend(bytes(words * WORD))
        return place

    @staticmethod
    def _after(place: _Place, words: int) -> _Place:
        return _Place(place.segment, place.word + words)

    def _set(self, place: _Place, word: int) -> None:
        self._put(place, word.to_bytes(WORD, "little"))

    def _put(self, place: _Place, content: bytes) -> None:
        begin = place.word * WORD
        self._segments[place.segment][begin : begin + len(content)] = content

    def _framed(self) -> bytes:
        return framed(self._segments)


def framed(segments: Sequence[bytes | bytearray]) -> bytes:
    """Segments behind the table that counts them."""
    sizes: Iterable[int] = (len(segments) - 1, *(len(segment) // WORD for segment in segments))
    table = b"".join(size.to_bytes(4, "little") for size in sizes)
    return b"".join((table, bytes(-len(table) % WORD), *segments))
