"""The client's clocks: where locks are rows of a foreign contract, expiry is judged by whoever asks."""

from __future__ import annotations

import time


class ClientClock:
    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def boot_id(self) -> str:
        """Nothing here outlives its process."""
        return ""
