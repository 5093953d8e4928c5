"""The machine's own clocks: what a SQLite store judges expiry by, the same for all its processes."""

from __future__ import annotations

import time
from functools import cached_property
from pathlib import Path


class MachineClock:
    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def boot_id(self) -> str:
        return self._boot_id

    @cached_property
    def _boot_id(self) -> str:
        """Linux names each boot; elsewhere the moment of booting does, to the minute."""
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        except OSError:
            return f"boot-{round((time.time() - time.monotonic()) / 60)}"
