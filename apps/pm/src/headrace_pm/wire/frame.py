"""The frame of a file: how long its messages say they are, before any of them is read.

A message begins with the number of its segments less one and the words in each, 4 bytes a number, little-endian, filled
up to 8 bytes. So the first bytes of a file and its size tell whether it is whole. A packed file shows neither in its
name nor by a mark that it is packed: but its first byte is a tag, and then what stands where a plain file counts its
segments is a number in the millions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace_pm.wire.byte_source import ByteSource, HeldBytes, read_bytes

WORD = 8
# More is a wrong frame: no writer makes so many, since each segment is larger than the one before.
SEGMENTS_MAX = 512
# A file of an element and a period is one message. Some writers append; none appends so often.
MESSAGES_MAX = 1_024
# A damaged table may say terabytes: a file for which nobody needs to wait.
MESSAGE_BYTES_MAX = 4 << 30
# What `examine_head` wants to see of a file: the longest table.
HEAD_BYTES = 4 + 4 * (SEGMENTS_MAX + 1)


@dataclass(frozen=True, slots=True)
class MessageFrame:
    """Where one message lies in its file: the byte of its first word, and the words at which its segments begin, the
    last of them being the end."""

    body: int
    starts: tuple[int, ...]

    @property
    def words(self) -> int:
        return self.starts[-1]

    @property
    def end(self) -> int:
        return self.body + WORD * self.words


@dataclass(frozen=True, slots=True)
class Complete:
    """The file is as long as its messages say."""

    frames: tuple[MessageFrame, ...]


@dataclass(frozen=True, slots=True)
class Incomplete:
    """At least so many bytes are missing; `exact` if it is known that it is not more."""

    missing: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Bad:
    """No file that begins like this can be read."""

    reason: str


@dataclass(frozen=True, slots=True)
class Undecided:
    """The first bytes do not tell: the file is packed, or holds more than one message."""

    packed: bool


Verdict = Complete | Incomplete | Bad | Undecided


def examine_head(head: bytes, size: int) -> Verdict:
    """What the first `HEAD_BYTES` of a file (or all of it, if it has less) say of a file of this size."""
    first = _frame(HeldBytes(head), 0, size)
    if isinstance(first, MessageFrame):
        if first.end < size:
            return Undecided(packed=False)
        return Complete((first,)) if first.end == size else Incomplete(first.end - size, exact=True)
    return first


def examine(source: ByteSource) -> Verdict:
    """What a file says of itself: `Undecided` is one that is packed."""
    frames: list[MessageFrame] = []
    at = 0
    while at < source.size or not frames:
        frame = _frame(source, at, source.size)
        if isinstance(frame, Undecided) and frames:
            return Bad(f"what follows message {len(frames)} is none")
        if not isinstance(frame, MessageFrame):
            return frame
        if frame.end > source.size:
            return Incomplete(frame.end - source.size, exact=True)
        if len(frames) == MESSAGES_MAX:
            return Bad(f"more than {MESSAGES_MAX} messages")
        frames.append(frame)
        at = frame.end
    return Complete(tuple(frames))


def _frame(source: ByteSource, at: int, size: int) -> MessageFrame | Incomplete | Bad | Undecided:
    """The frame of the message that begins there. The source has the table, if the file of this size has it."""
    if size - at < WORD:
        # The shortest message is a table and a null root.
        return Incomplete(2 * WORD - (size - at), exact=False)
    count = int.from_bytes(read_bytes(source, at, 4), "little") + 1
    if count > SEGMENTS_MAX:
        return Undecided(packed=True)
    table = (4 + 4 * count + 7) // WORD * WORD
    if size - at < table:
        return Incomplete(table + WORD - (size - at), exact=False)
    words = np.frombuffer(read_bytes(source, at + 4, 4 * count), "<u4").astype(np.int64)
    starts = (0, *np.cumsum(words).tolist())
    if not words[0]:
        return Bad("its first segment is empty")
    if starts[-1] * WORD > MESSAGE_BYTES_MAX:
        return Bad(f"it says it is {starts[-1] * WORD:,} bytes long, and at most {MESSAGE_BYTES_MAX:,} are read")
    return MessageFrame(at + table, starts)
