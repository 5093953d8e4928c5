"""One message of a file: a CounterDataCollection, read as columns.

The layout follows from `counter.capnp` (a test compares it with what the compiler makes of the schema):

    CounterDataCollection   pointers: unit, data
    CounterData             words: time, duration (lower half), cell; pointers: location, data
    CounterValue            words: id (lower half), value

A writer with an older schema has shorter structs: what is missing has its default. Defaults are exclusive-ored into
what is written, so that zero bytes stand for them.

Memory is bounded by the constants here, whatever the file says; and the work by the size of the file: lists and texts
that share words of it are counted for each pointer that leads to them, and together may not be more than the file has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace_pm.wire.counter_block import CounterBlock, ObservedObjects
from headrace_pm.wire.file_errors import BadFile
from headrace_pm.wire.message_body import MessageBody, Places, Words
from headrace_pm.wire.pointers import FieldRefusal, StructLists, byte_lists, follow, root_pointers, struct_lists

# Of objects and of counters so many are looked at together: enough that a call of numpy is cheap per counter.
CHUNK_OBJECTS, CHUNK_WORDS = 1_024, 64 << 10
BLOCK_COUNTERS, BLOCK_WORDS = 6 << 10, 96 << 10
# A location is a line; a batch may have a thousand of them.
TEXT_BYTES_MAX = 8 << 10
# What DATETIME of MySQL and DateTime64 of ClickHouse both hold begins in 1970 at the latest and ends with 2299.
TIME_MS_END = 10_413_792_000_000


@dataclass(frozen=True, slots=True)
class CounterDefaults:
    """The defaults of the schema by which files are written. `counter.capnp` states none."""

    time: int = 0
    duration: int = 0
    cell: int = 0
    id: int = 0
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Objects in a row: their fields, their lists of counters, and where their locations stand."""

    times: NDArray[np.int64]
    durations: NDArray[np.int32]
    cells: NDArray[np.int64]
    counters: StructLists
    text_starts: Places
    text_bytes: Places

    @property
    def charge(self) -> int:
        return int(self.counters.charges.sum() + ((self.text_bytes + 7) // 8).sum())


class CounterMessage:
    """A message whose every pointer was followed once: what is wrong with it was found before it is read."""

    def __init__(self, body: MessageBody, defaults: CounterDefaults) -> None:
        self._body, self._defaults = body, defaults
        words, places, segment = root_pointers(body, 2)
        self.unit = self._unit(words[:1], places[:1], segment)
        refusal = FieldRefusal("data")
        targets = follow(body, words[1:], places[1:], segment, refusal)
        self._segment = int(targets.segments[0])
        self._list = struct_lists(body, targets, refusal)
        self.counters = self._survey()

    def _unit(self, words: Words, places: Places, segment: int) -> str:
        refusal = FieldRefusal("unit")
        starts, lengths = self._texts(follow_texts(self._body, words, places, segment, refusal), refusal)
        first, count = int(starts[0]), int(lengths[0])
        text = self._body.words(first, (count + 7) // 8).tobytes() if count else b"\0"
        return text[: max(count - 1, 0)].decode("utf-8", "replace")

    def _texts(self, found: tuple[Places, Places], refusal: FieldRefusal) -> tuple[Places, Places]:
        """Texts end with a zero byte, which their length counts."""
        starts, lengths = found
        refusal.where(lengths > TEXT_BYTES_MAX, f"a text of more than {TEXT_BYTES_MAX:,} bytes")
        there = np.flatnonzero(lengths)
        last = lengths[there] - 1
        ends = self._body.gather(starts[there] + last // 8) >> (8 * (last % 8)).astype(np.uint64)
        open_ended = np.zeros(len(lengths), bool)
        open_ended[there] = (ends & np.uint64(0xFF)) != 0
        refusal.where(open_ended, "a text without its end")
        return starts, lengths

    def _survey(self) -> int:
        """Follow every pointer, and count."""
        charge, counters = int(self._list.charges[0]), 0
        self._check_charge(charge)
        for chunk in self._chunks():
            charge += chunk.charge
            counters += int(chunk.counters.counts.sum())
            self._check_charge(charge)
        return counters

    def _check_charge(self, charge: int) -> None:
        if charge > self._body.size:
            raise BadFile(f"its lists together are longer than the {self._body.size:,} words it has")

    def _chunks(self) -> Iterator[_Chunk]:
        # Without a pointer to counters, as in a list of numbers, objects are nothing to us.
        if self._list.pointers[0] < 2:
            return
        total, step = int(self._list.counts[0]), int(self._list.steps[0]) // 2
        size = max(1, min(CHUNK_OBJECTS, CHUNK_WORDS // step))
        for first in range(0, total, size):
            yield self._chunk(first, min(size, total - first), step)

    def _chunk(self, first: int, count: int, step: int) -> _Chunk:
        place = int(self._list.starts[0]) + first * step
        words = self._body.words(place, count * step).reshape(count, step)
        known, defaults = int(self._list.data[0]) // 2, self._defaults
        places = place + step * np.arange(count) + known
        refusal = FieldRefusal("its counters", first)
        targets = follow(self._body, words[:, known + 1], places + 1, self._segment, refusal)
        counters = struct_lists(self._body, targets, refusal)
        refusal = FieldRefusal("its location", first)
        # An object without counters is nobody's, whatever its location is.
        locations = np.where(counters.counts, words[:, known], np.uint64(0))
        starts, lengths = self._texts(follow_texts(self._body, locations, places, self._segment, refusal), refusal)
        none = np.zeros(count, np.uint64)
        times = _number(words[:, 0] if known > 0 else none, np.int64, defaults.time)
        outside = ((times < 0) | (times >= TIME_MS_END)) & (counters.counts > 0)
        FieldRefusal("its time", first).where(outside, "before 1970 or after 2299")
        return _Chunk(
            times,
            _number((words[:, 1] if known > 1 else none).astype(np.uint32), np.int32, defaults.duration),
            _number(words[:, 2] if known > 2 else none, np.int64, defaults.cell),
            counters,
            starts,
            lengths,
        )

    def blocks(self, batch: int, skip: int = 0) -> Iterator[CounterBlock]:
        """The counters behind the first `skip`, in blocks that end where a batch ends, but the last one."""
        target = max(batch, BLOCK_COUNTERS // batch * batch)
        held: CounterBlock | None = None
        for piece in self._pieces(target, skip):
            block = held.followed_by(piece) if held else piece
            whole = len(block) // batch * batch
            if whole:
                yield block.until(whole)
            held = block.since(whole) if whole < len(block) else None
        if held:
            yield held

    def _pieces(self, target: int, skip: int) -> Iterator[CounterBlock]:
        """Counters as they are read: never beyond a chunk of objects, nor beyond a place that is a multiple of the
        target, nor more than fit into memory."""
        done = 0
        for chunk in self._chunks():
            ends = np.cumsum(chunk.counters.counts)
            total = int(ends[-1])
            at = max(0, skip - done)
            while at < total:
                until = min(_room(chunk.counters, ends, at), at + target - (done + at) % target)
                yield self._piece(chunk, ends, at, until)
                at = until
            done += total

    def _piece(self, chunk: _Chunk, ends: Places, at: int, until: int) -> CounterBlock:
        """The counters of a chunk from one place to another."""
        objects = slice(int(np.searchsorted(ends, at, "right")), int(np.searchsorted(ends, until, "left")) + 1)
        lists = chunk.counters
        begins = ends[objects] - lists.counts[objects]
        skipped = np.maximum(at - begins, 0)
        counts = np.minimum(ends[objects], until) - begins - skipped
        steps = lists.steps[objects]
        # In units of four bytes, since a list of numbers has elements of half a word.
        firsts = 2 * lists.starts[objects] + skipped * steps
        starts = firsts // 2
        lengths = (firsts + counts * steps + 1) // 2 - starts
        text_starts, text_bytes = chunk.text_starts[objects], chunk.text_bytes[objects]
        words, offsets = self._body.spans(
            np.concatenate((starts, text_starts)), np.concatenate((lengths, (text_bytes + 7) // 8))
        )
        places = 2 * offsets[: len(starts)] + firsts % 2
        ids, values = self._values(words, places, counts, steps, lists.data[objects])
        return CounterBlock(
            ids,
            values,
            np.repeat(np.arange(len(counts), dtype=np.int32), counts),
            ObservedObjects(
                chunk.times[objects],
                chunk.durations[objects],
                chunk.cells[objects],
                _texts_of(words, offsets[len(starts) :], text_bytes),
            ),
        )

    def _values(
        self, words: Words, places: Places, counts: Places, steps: Places, data: Places
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Ids and values of counters of which the first of each object stands at a place, in units of four bytes."""
        total = int(counts.sum())
        before = np.cumsum(counts) - counts
        if (steps == steps[0]).all():
            step = int(steps[0])
            at = np.repeat(places - step * before, counts) + step * np.arange(total)
        else:
            each = np.repeat(steps, counts)
            at = np.repeat(places - steps * before, counts) + each * np.arange(total)
        has_id, has_value = data >= 1, data >= 4
        ids = _taken(words.view("<u4"), at, np.repeat(has_id, counts) if not has_id.all() else None)
        at >>= 1
        at += 1
        bits = _taken(words, at, np.repeat(has_value, counts) if not has_value.all() else None)
        values = _number(bits, np.int64, int(np.array(self._defaults.value, "<f8").view("<i8"))).view(np.float64)
        return _number(ids, np.int32, self._defaults.id), values


def _room(lists: StructLists, ends: Places, at: int) -> int:
    """How far the counters from a place on fit into a block of memory. One does: no element is half as wide."""
    used = np.cumsum(lists.counts * lists.steps)
    which = int(np.searchsorted(ends, at, "right"))
    limit = used[which] - (ends[which] - at) * lists.steps[which] + 2 * BLOCK_WORDS
    last = int(np.searchsorted(used, limit, "right"))
    if last == len(used):
        return int(ends[-1])
    return int(ends[last] + (limit - used[last]) // lists.steps[last])


def follow_texts(
    body: MessageBody, words: Words, places: Places, segment: int, refusal: FieldRefusal
) -> tuple[Places, Places]:
    """Where the texts begin to which the pointers at these places lead, and their bytes. An empty list is no text."""
    targets = follow(body, words, places, segment, refusal)
    starts, lengths = byte_lists(body, targets, refusal)
    refusal.where((lengths == 0) & ~targets.is_null, "a text without its end")
    return starts, lengths


def _taken(
    words: NDArray[np.unsignedinteger], at: Places, there: NDArray[np.bool_] | None
) -> NDArray[np.unsignedinteger]:
    """The words at these places; zero where the field is not there."""
    if there is None:
        return words[at]
    return np.where(there, words[np.where(there, at, 0)], words.dtype.type(0))


def _number(
    words: NDArray[np.unsignedinteger], kind: type[np.signedinteger], default: int
) -> NDArray[np.signedinteger]:
    numbers = np.ascontiguousarray(words).view(kind)
    return numbers ^ kind(default) if default else numbers


def _texts_of(words: Words, offsets: Places, lengths: Places) -> list[bytes]:
    view = words.data.cast("B")
    begins = (8 * offsets).tolist()
    return [
        bytes(view[begin : begin + max(0, length - 1)]) for begin, length in zip(begins, lengths.tolist(), strict=True)
    ]
