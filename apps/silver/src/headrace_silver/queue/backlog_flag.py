"""The flag that asks producers to slow down, as a producer sees it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from headrace.services import Backoff
from headrace_silver.stores.silver_store import FLAG, SilverStore

LOOKS = Backoff(0.1, 5.0, jitter=0.0)


@dataclass(frozen=True, slots=True)
class FlagState:
    """Whether producers should slow down, and when a consumer last said so (None: none ever has)."""

    on: bool
    updated_at: datetime | None


def read_flag(store: SilverStore) -> FlagState:
    found = store.rows("put_flag", {"name": FLAG})
    return FlagState(*found[0]) if found else FlagState(False, None)


def wait_until_off(
    store: SilverStore,
    timeout_s: float | None,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> FlagState:
    """Look again and again, less and less often, until the flag is off. Raises TimeoutError when the time is up."""
    ends_at = None if timeout_s is None else clock() + timeout_s
    looks = 0
    while (state := read_flag(store)).on:
        left_s = LOOKS.max_s if ends_at is None else ends_at - clock()
        if left_s <= 0:
            raise TimeoutError(f"{FLAG} is still on after {timeout_s:g} s, last written {state.updated_at}")
        looks += 1
        pause(min(LOOKS.pause_s(looks), left_s))
    return state
