"""Bytes that can be read at any place: those of a file, by `pread`.

Not by a mapping: a file that shrinks while it is mapped ends the process, and mapped pages count as memory of the
process.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Protocol

from headrace_pm.wire.file_errors import IncompleteFile


class ByteSource(Protocol):
    """Bytes at any place; their number does not change."""

    size: int

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill the target with the bytes from the offset on. Fewer than that is `IncompleteFile`."""


class FileBytes:
    """The bytes of an open file. May be used by several threads."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._descriptor).st_size

    def read_into(self, target: memoryview, offset: int) -> None:
        while len(target):
            count = os.preadv(self._descriptor, [target], offset)
            if not count:
                raise IncompleteFile(len(target))
            target, offset = target[count:], offset + count

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> FileBytes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class HeldBytes:
    """Bytes that are in memory: the beginning of a file, or a small one."""

    def __init__(self, held: bytes) -> None:
        self._held = memoryview(held)
        self.size = len(held)

    def read_into(self, target: memoryview, offset: int) -> None:
        missing = offset + len(target) - self.size
        if missing > 0:
            raise IncompleteFile(missing)
        target[:] = self._held[offset : offset + len(target)]


def read_bytes(source: ByteSource, offset: int, length: int) -> bytes:
    target = bytearray(length)
    source.read_into(memoryview(target), offset)
    return bytes(target)
