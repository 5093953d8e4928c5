"""Packed messages: every word as a tag, of which each bit says whether a byte of the word is not zero, and those bytes.

Tag 0x00 is followed by the number of further words that are zero, tag 0xff (after its eight bytes) by the number of
words that follow as they are. Where a tag stands depends on all tags before it, which asks for a loop over words. Here
the step that a tag would take is looked up for every byte of a block at once; steps are doubled three times over, so
that the loop in Python looks at every eighth tag only; and the other seven are walked by all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace_pm.wire.byte_source import ByteSource, FileBytes, read_bytes
from headrace_pm.wire.file_errors import BadFile, IncompleteFile
from headrace_pm.wire.frame import HEAD_BYTES, MESSAGE_BYTES_MAX, WORD, Bad, Undecided, examine_head

Bytes = NDArray[np.uint8]
Places = NDArray[np.intp]

# The steps of a block stay in the processor's cache.
BLOCK_BYTES = 32 << 10
# Two bytes of a packed file may be 2 KiB of zeros: what a block becomes is written in pieces of this size.
PIECE_WORDS = 64 << 10
# Counters take at least a third of their size when packed; so much smaller is a file only if it was made to fill disks.
TIMES_MAX, FREE_BYTES = 64, 1 << 20
DOUBLINGS = 3
_ZEROS, _LITERALS = 0x00, 0xFF
# How long the entry of a tag is, without what follows the count of a tag 0xff.
_STEP = np.array([1 + tag.bit_count() for tag in range(256)], np.intp)
_STEP[_ZEROS], _STEP[_LITERALS] = 2, 10


def unpack(source: ByteSource, write: Callable[[bytes], object]) -> None:
    """Write what a packed file holds, piece by piece."""
    bytes_max = min(TIMES_MAX * source.size + FREE_BYTES, MESSAGE_BYTES_MAX)
    written = 0
    for piece in _pieces(source):
        if not written:
            _check_head(piece)
        written += len(piece)
        if written > bytes_max:
            raise BadFile(f"{source.size:,} bytes become more than {bytes_max:,} when they are unpacked")
        write(piece)


def unpack_file(path: Path, target: Path, grow: Callable[[int], object]) -> None:
    """Write what a packed file holds as another file; `grow` is asked for room before each piece."""
    with FileBytes(path) as source, target.open("wb") as file:

        def write(piece: bytes) -> None:
            grow(len(piece))
            file.write(piece)

        unpack(source, write)


def pack(plain: bytes) -> bytes:
    """A whole number of words, packed. Runs of words without a zero byte are not shortened by a count."""
    words = np.frombuffer(plain, np.uint8).reshape(-1, WORD)
    used = words != 0
    tags = np.packbits(used, axis=1, bitorder="little")[:, 0]
    is_zero = tags == _ZEROS
    # A zero word begins an entry if it is the first of its run, or the 256 words of the entry before are full.
    numbers = np.arange(len(tags))
    begins = numbers.copy()
    begins[is_zero & np.append(False, is_zero[:-1])] = -1
    in_run = numbers - np.maximum.accumulate(begins)
    is_entry = ~is_zero | (in_run % 256 == 0)
    entries = np.flatnonzero(is_entry)
    counts = np.diff(np.append(entries, len(tags))) - 1
    is_full = tags == _LITERALS
    # One row of ten bytes per entry, tag and bytes and count, of which those that are used are taken.
    rows = np.zeros((len(entries), 10), np.uint8)
    taken = np.zeros((len(entries), 10), bool)
    rows[:, 0], taken[:, 0] = tags[entries], True
    rows[:, 1:9], taken[:, 1:9] = words[entries], used[entries]
    rows[:, 9] = np.where(is_zero[entries], counts, 0)
    taken[:, 9] = (is_zero | is_full)[entries]
    return rows[taken].tobytes()


def _check_head(piece: bytes) -> None:
    """Garbage is told from a packed file before anything is made of it."""
    head = examine_head(piece[:HEAD_BYTES], MESSAGE_BYTES_MAX)
    if isinstance(head, Undecided) and head.packed:
        raise BadFile("neither plain nor packed: no message begins like this")
    if isinstance(head, Bad):
        raise BadFile(head.reason)


def _pieces(source: ByteSource) -> Iterator[bytes]:
    at, carried = 0, b""
    while at < source.size:
        length = min(BLOCK_BYTES, source.size - at)
        block = np.frombuffer(carried + read_bytes(source, at, length), np.uint8)
        at += length
        tags, end = _tags(block)
        yield from _unpacked(block[:end], tags)
        carried = block[end:].tobytes()
    if carried:
        raise IncompleteFile(_length(np.frombuffer(carried, np.uint8)) - len(carried))


def _length(entry: Bytes) -> int:
    """How long the entry that begins here is, as far as can be seen."""
    if entry[0] == _LITERALS and len(entry) > 9:
        return 10 + WORD * int(entry[9])
    return int(_STEP[entry[0]])


def _tags(block: Bytes) -> tuple[Places, int]:
    """Where the tags of all whole entries of a block stand, and where the last of them ends."""
    size = len(block)
    # Beyond the block there is one place, which leads to itself. An entry that is not whole leads there as well.
    after = np.append(np.arange(size) + _STEP.take(block), size)
    literals = np.flatnonzero(block[: max(0, size - 9)] == _LITERALS)
    after[literals] += WORD * block[literals + 9].astype(np.intp)
    is_cut = after > size
    np.minimum(after, size, out=after)
    leaps = after
    for _ in range(DOUBLINGS):
        leaps = leaps.take(leaps)
    firsts = []
    reached, view = 0, leaps.data
    while reached < size:
        firsts.append(reached)
        reached = view[reached]
    walked = np.empty((1 << DOUBLINGS, len(firsts)), np.intp)
    walked[0] = firsts
    for step in range(1, 1 << DOUBLINGS):
        walked[step] = after.take(walked[step - 1])
    tags = walked.T.ravel()
    tags = tags[: int(np.searchsorted(tags, size))]
    if is_cut[tags[-1]]:
        return tags[:-1], int(tags[-1])
    return tags, size


def _unpacked(block: Bytes, places: Places) -> Iterator[bytes]:
    """The words of whole entries."""
    tags = block[places]
    zeros, literals = tags == _ZEROS, tags == _LITERALS
    further = np.zeros(len(places), np.int64)
    further[zeros] = block[places[zeros] + 1]
    further[literals] = block[places[literals] + 9]
    is_byte = np.ones(len(block), bool)
    is_byte[places] = False
    is_byte[places[zeros] + 1] = False
    is_byte[places[literals] + 9] = False
    ends = np.cumsum(further + 1)
    begin = 0
    while begin < len(places):
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + PIECE_WORDS, "right")))
        part = slice(begin, end)
        first = places[begin]
        last = places[end] if end < len(places) else len(block)
        yield _words(tags[part], further[part], block[first:last][is_byte[first:last]])
        begin = end


def _words(tags: Bytes, further: NDArray[np.int64], values: Bytes) -> bytes:
    """Entries as words: their tags, how many words follow each of them, and all bytes that are neither."""
    masks = np.repeat(tags, further + 1)
    words = np.zeros(len(masks) * WORD, np.uint8)
    words[np.unpackbits(masks, bitorder="little").view(bool)] = values
    return words.tobytes()
