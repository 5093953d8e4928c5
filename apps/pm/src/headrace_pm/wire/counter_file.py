"""A performance file: its messages one after the other, in batches that are the same whenever it is read.

Batch n of a message are its counters from `n * size` on, by their position in the file: what a dictionary leaves out
later does not move the others. Batches are numbered over all messages, and none reaches from one into the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace_pm.wire.byte_source import ByteSource, FileBytes
from headrace_pm.wire.counter_block import CounterBlock
from headrace_pm.wire.counter_message import CounterDefaults, CounterMessage
from headrace_pm.wire.file_errors import BadFile, IncompleteFile
from headrace_pm.wire.frame import Bad, Complete, Incomplete, Undecided, examine
from headrace_pm.wire.message_body import MessageBody
from headrace_pm.wire.packed import unpack_file

BATCH_SIZE = 1_000


@dataclass(frozen=True, slots=True)
class BatchBlock:
    """Whole batches of one message in a row: the number of the first of them, the position of its first counter in
    the file, and the name of the network element."""

    batch: int
    position: int
    unit: str
    counters: CounterBlock


class CounterFile:
    """The counters of a plain file, of which everything was checked: to open a bad one raises `BadFile`, to open one
    that is not whole `IncompleteFile`. Texts are not held, nor are counters: memory does not depend on its size."""

    def __init__(self, source: ByteSource, defaults: CounterDefaults | None = None) -> None:
        match examine(source):
            case Complete(frames):
                bodies = (MessageBody(source, frame) for frame in frames)
                self._messages = [CounterMessage(body, defaults or CounterDefaults()) for body in bodies]
            case Incomplete(missing):
                raise IncompleteFile(missing)
            case Bad(reason):
                raise BadFile(reason)
            case Undecided():
                raise BadFile("not a plain file")

    @property
    def counters(self) -> int:
        return sum(message.counters for message in self._messages)

    @property
    def units(self) -> list[str]:
        """The network elements, one for each message."""
        return [message.unit for message in self._messages]

    def batch_count(self, size: int = BATCH_SIZE) -> int:
        return sum(_batches(message, size) for message in self._messages)

    def blocks(self, size: int = BATCH_SIZE, since: int = 0) -> Iterator[BatchBlock]:
        """All batches of this size from number `since` on, several of them together."""
        first, position = 0, 0
        for message in self._messages:
            batch = max(first, since)
            skip = (batch - first) * size
            if skip < message.counters:
                for counters in message.blocks(size, skip):
                    yield BatchBlock(batch, position + skip, message.unit, counters)
                    batch, skip = batch + -(-len(counters) // size), skip + len(counters)
            first, position = first + _batches(message, size), position + message.counters


def _batches(message: CounterMessage, size: int) -> int:
    return -(-message.counters // size)


def is_packed(source: ByteSource) -> bool:
    """Whether a file must be unpacked before it can be read."""
    return isinstance(examine(source), Undecided)


def unbounded(_byte_count: int) -> None:
    """As much room as there is."""


def plain_file(path: Path, unpacked: Path, grow: Callable[[int], object] = unbounded) -> Path:
    """The file itself if it is plain; else what it unpacks to, which is written to the second path. What cannot be
    unpacked leaves nothing there. `grow` is asked for room and may raise."""
    with FileBytes(path) as source:
        if not is_packed(source):
            return path
    try:
        unpack_file(path, unpacked, grow)
    except BaseException:
        unpacked.unlink(missing_ok=True)
        raise
    return unpacked
