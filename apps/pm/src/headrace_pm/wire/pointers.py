"""Pointers of Cap'n Proto, followed for many objects at once.

A pointer is one word. Its two lowest bits are its kind: 0 a struct, 1 a list, 2 a far pointer, 3 a capability, of which
a file has none. Structs and lists lie an offset behind the pointer, in the same segment. A far pointer names a segment
and a landing pad in it: one word, an ordinary pointer; or two, a far pointer to what is meant and a word that says what
it is. There is no third step, so no chain of pointers can be endless. Every place is compared with the ends of its
segment before it is read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace_pm.wire.file_errors import BadFile
from headrace_pm.wire.message_body import MessageBody, Places, Words

Truths = NDArray[np.bool_]

_STRUCT, _LIST, _FAR = 0, 1, 2
BYTES, COMPOSITE = 2, 7
_VOID, _BIT, _POINTER = 0, 1, 6
# By the code of a list: the bits of an element. A composite list counts words instead.
_ELEMENT_BITS = np.array([0, 1, 8, 16, 32, 64, 64, 64], np.int64)


@dataclass(frozen=True, slots=True)
class Targets:
    """What pointers lead to: where it begins, the segment in which it must lie, and the word that says what it is.
    A pointer that is null leads nowhere, and its word is zero."""

    starts: Places
    segments: Places
    words: Words

    @property
    def is_null(self) -> Truths:
        null: Truths = self.words == 0
        return null


@dataclass(frozen=True, slots=True)
class StructLists:
    """Lists of structs. `starts` are the places of their first elements; `data` and `steps` are in units of four bytes:
    the data section of an element, and the way to the next one. `charges` are the words that a list takes of the file,
    of which an element without any counts as one."""

    starts: Places
    counts: Places
    data: Places
    pointers: Places
    steps: Places
    charges: Places


class FieldRefusal:
    """Raises `BadFile` with the number of the object, if there is one, and the field that is wrong."""

    def __init__(self, field: str, first: int = -1) -> None:
        self._field, self._first = field, first

    def where(self, wrong: Truths, reason: str) -> None:
        """Refuse the file if anything is wrong."""
        if wrong.any():
            number = f"object {self._first + int(wrong.argmax())}, " if self._first >= 0 else ""
            raise BadFile(f"{number}{self._field}: {reason}")


def follow(body: MessageBody, words: Words, places: Places, segment: int, refusal: FieldRefusal) -> Targets:
    """Where the pointers lead that stand at these places of one segment."""
    kinds = words & np.uint64(3)
    refusal.where(kinds == 3, "a capability")
    targets = Targets(places + 1 + _offsets(words), np.full(len(words), segment), words.copy())
    far = np.flatnonzero(kinds == _FAR)
    if len(far):
        _land(body, far, targets, refusal)
    return targets


def struct_lists(body: MessageBody, targets: Targets, refusal: FieldRefusal) -> StructLists:
    """The targets as lists of structs, with their bounds checked. A list of numbers or pointers is one of structs that
    have a single field: that is how a schema may grow. A null pointer is an empty list."""
    codes, numbers = _list_words(targets, refusal)
    refusal.where((codes == _BIT) & ~targets.is_null, "a list of bits, which are no structs")
    composite = codes == COMPOSITE
    lengths = np.where(composite, numbers + 1, (numbers * _ELEMENT_BITS[codes] + 63) // 64)
    lengths[targets.is_null] = 0
    _check_bounds(body, targets, lengths, refusal)
    starts, counts = targets.starts.copy(), numbers.copy()
    data = np.where(composite | (codes == _POINTER), 0, _ELEMENT_BITS[codes] // 32)
    pointers = (codes == _POINTER).astype(np.int64)
    steps = _ELEMENT_BITS[codes] // 32
    where = np.flatnonzero(composite)
    if len(where):
        tags = body.gather(starts[where])
        refusal.where(_scattered(where, tags & np.uint64(3) != _STRUCT, len(starts)), "its elements are no structs")
        counts[where] = (tags & np.uint64(0xFFFF_FFFF)) >> np.uint64(2)
        data[where] = 2 * ((tags >> np.uint64(32)) & np.uint64(0xFFFF)).astype(np.int64)
        pointers[where] = tags >> np.uint64(48)
        steps[where] = data[where] + 2 * pointers[where]
        starts[where] += 1
        refusal.where(composite & (counts * steps > 2 * numbers), "more elements than it has room for")
    is_free = (codes == _VOID) | (composite & (steps == 0))
    return StructLists(starts, counts, data, pointers, steps, np.where(is_free, np.maximum(counts, lengths), lengths))


def byte_lists(body: MessageBody, targets: Targets, refusal: FieldRefusal) -> tuple[Places, Places]:
    """The targets as texts: where they begin, and how many bytes they have. A null pointer has none."""
    codes, numbers = _list_words(targets, refusal)
    refusal.where((codes != BYTES) & ~targets.is_null, "no text")
    lengths = np.where(targets.is_null, 0, numbers)
    _check_bounds(body, targets, (lengths + 7) // 8, refusal)
    return targets.starts, lengths


def root_pointers(body: MessageBody, count: int) -> tuple[Words, Places, int]:
    """The first pointers of the root struct, where they stand, and in which segment. One that the writer did not know
    is null."""
    refusal = FieldRefusal("root")
    targets = follow(body, body.words(0, 1), np.zeros(1, np.int64), 0, refusal)
    none = np.zeros(count, np.uint64)
    if targets.is_null[0]:
        return none, np.zeros(count, np.int64), 0
    word = int(targets.words[0])
    refusal.where(np.array([word & 3 != _STRUCT]), "no struct")
    data, pointers = (word >> 32) & 0xFFFF, word >> 48
    _check_bounds(body, targets, np.array([data + pointers]), refusal)
    start = int(targets.starts[0]) + data
    known = min(count, pointers)
    none[:known] = body.words(start, known)
    return none, start + np.arange(count), int(targets.segments[0])


def _offsets(words: Words) -> Places:
    """The upper 30 bits of the lower half, signed."""
    return (words.astype(np.uint32).view(np.int32) >> 2).astype(np.int64)


def _land(body: MessageBody, far: Places, targets: Targets, refusal: FieldRefusal) -> None:
    """Replace what far pointers say by what their landing pads say."""
    total = len(targets.words)
    words = targets.words[far]
    double = (words & np.uint64(4)) != 0
    segments, pads = _far_places(body, far, words, targets, refusal)
    outside = pads + 1 + double > body.ends[segments]
    refusal.where(_scattered(far, outside, total), "its landing pad is outside of its segment")
    first = body.gather(pads)
    once = far[~double]
    targets.words[once] = first[~double]
    targets.starts[once] = pads[~double] + 1 + _offsets(first[~double])
    targets.segments[far] = segments
    if double.any():
        twice = far[double]
        second = first[double]
        wrong = (second & np.uint64(7)) != _FAR
        refusal.where(_scattered(twice, wrong, total), "its landing pad does not lead on")
        segments, starts = _far_places(body, twice, second, targets, refusal)
        targets.words[twice] = body.gather(pads[double] + 1)
        targets.starts[twice] = starts
        targets.segments[twice] = segments
    landed = targets.words[far]
    wrong = ((landed & np.uint64(3)) > _LIST) | (landed == 0)
    refusal.where(_scattered(far, wrong, total), "its landing pad leads nowhere")


def _far_places(
    body: MessageBody, which: Places, words: Words, targets: Targets, refusal: FieldRefusal
) -> tuple[Places, Places]:
    segments = (words >> np.uint64(32)).astype(np.int64)
    refusal.where(_scattered(which, segments >= len(body.starts), len(targets.words)), "there is no such segment")
    return segments, body.starts[segments] + ((words >> np.uint64(3)) & np.uint64(0x1FFF_FFFF)).astype(np.int64)


def _list_words(targets: Targets, refusal: FieldRefusal) -> tuple[Places, Places]:
    """The code of each list, and the number it states."""
    refusal.where((targets.words & np.uint64(3) != _LIST) & ~targets.is_null, "no list")
    halves = (targets.words >> np.uint64(32)).astype(np.int64)
    return halves & 7, halves >> 3


def _check_bounds(body: MessageBody, targets: Targets, lengths: Places, refusal: FieldRefusal) -> None:
    ends = targets.starts + lengths
    outside = (targets.starts < body.starts[targets.segments]) | (ends > body.ends[targets.segments])
    refusal.where(outside & ~targets.is_null, "it is outside of its segment")


def _scattered(which: Places, wrong: Truths, total: int) -> Truths:
    """Truths about some of the targets as truths about all of them, so that an object is called by its number."""
    scattered = np.zeros(total, bool)
    scattered[which] = wrong
    return scattered
