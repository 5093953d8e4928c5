"""A circuit breaker on memory: a process that has too much of it takes no new files until it has less."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

# With less of a gap each file that ends would let one in, and the process would stay at its limit.
AGAIN_BELOW = 0.9
_STATUS = Path("/proc/self/status")
log = structlog.get_logger("headrace_pm.work")


def anonymous_bytes() -> int:
    """What of this process is in memory and in no file (RssAnon); 0 where the system does not tell."""
    if not _STATUS.exists():
        return 0
    for line in _STATUS.read_text("ascii", "replace").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


class MemoryBreaker:
    """`in_hand` says how many files the process works on. With none of them one is let in, whatever the memory: what
    Python does not give back to the system would stop the process for ever."""

    def __init__(
        self, bytes_max: int, in_hand: Callable[[], int], measure: Callable[[], int] = anonymous_bytes
    ) -> None:
        self._bytes_max, self._in_hand, self._measure = bytes_max, in_hand, measure
        self.is_open = False
        self.trips = 0

    def used_bytes(self) -> int:
        return self._measure()

    def accepting(self) -> bool:
        """Whether new files may be taken."""
        used = self._measure()
        if used > self._bytes_max and not self.is_open:
            self.is_open, self.trips = True, self.trips + 1
            log.warning("memory.full", bytes=used, bytes_max=self._bytes_max, files=self._in_hand())
        elif used <= self._bytes_max * AGAIN_BELOW and self.is_open:
            self.is_open = False
            log.info("memory.free", bytes=used, bytes_max=self._bytes_max)
        return not self.is_open or self._in_hand() == 0
