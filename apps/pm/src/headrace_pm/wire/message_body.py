"""The words of one message, read where they are wanted: one after the other, or many spans at once.

Places are counted in words over all segments, which lie behind each other in the file.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace_pm.wire.byte_source import ByteSource
from headrace_pm.wire.frame import WORD, MessageFrame

Words = NDArray[np.uint64]
Places = NDArray[np.int64]

# To read over a gap of 4 KiB costs as much as a second call.
GAP_WORDS = 512


class MessageBody:
    """The words of a message, and where its segments begin and end."""

    def __init__(self, source: ByteSource, frame: MessageFrame) -> None:
        self._source, self._frame = source, frame
        self.starts: Places = np.array(frame.starts[:-1], np.int64)
        self.ends: Places = np.array(frame.starts[1:], np.int64)

    @property
    def size(self) -> int:
        """How many words there are."""
        return self._frame.words

    def words(self, first: int, count: int) -> Words:
        """So many words in a row."""
        target = np.empty(count, "<u8")
        self._read(target, first)
        return target

    def gather(self, places: Places) -> Words:
        """The word at each of the places."""
        words, offsets = self.spans(places, np.ones(len(places), np.int64))
        return words[offsets]

    def spans(self, starts: Places, lengths: Places) -> tuple[Words, Places]:
        """The words of all spans in one array, and where in it each span begins. Spans that lie close to each other,
        or over each other, are read together; the array is no larger than what they cover and the gaps between."""
        if not len(starts):
            return np.zeros(1, "<u8"), starts
        order = np.argsort(starts, kind="stable")
        begins = starts[order]
        reach = np.maximum.accumulate((starts + lengths)[order])
        is_first = np.append(True, begins[1:] > reach[:-1] + GAP_WORDS)
        firsts = np.flatnonzero(is_first)
        run_starts = begins[firsts]
        run_lengths = reach[np.append(firsts[1:], len(order)) - 1] - run_starts
        run_offsets = np.cumsum(run_lengths) - run_lengths
        words = np.empty(int(run_lengths.sum()) + 1, "<u8")
        words[-1] = 0
        for start, length, offset in zip(run_starts.tolist(), run_lengths.tolist(), run_offsets.tolist(), strict=True):
            self._read(words[offset : offset + length], start)
        offsets = np.empty(len(order), np.int64)
        shift = np.repeat(run_offsets - run_starts, np.diff(np.append(firsts, len(order))))
        offsets[order] = begins + shift
        return words, offsets

    def _read(self, target: Words, first: int) -> None:
        if len(target):
            self._source.read_into(target.data.cast("B"), self._frame.body + WORD * first)
