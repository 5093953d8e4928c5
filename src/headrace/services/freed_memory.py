"""What the C library keeps of memory that was freed: little, because a service lives for months.

By itself glibc gives each of the first threads a heap of its own, eight for each processor, and each keeps what was
ever taken in it. It also learns from large blocks that were freed to keep such blocks from then on. A service has
dozens of threads that wait most of the time; two heaps and blocks that go back at once cost it nothing that shows.
"""

from __future__ import annotations

import ctypes

# Their numbers in malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
ARENAS = 2
LARGE_BYTES = 256 * 1024
KEPT_BYTES = 1024 * 1024


def keep_little() -> bool:
    """Before the first thread is started. False where the C library is another one."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    options = {_ARENA_MAX: ARENAS, _MMAP_THRESHOLD: LARGE_BYTES, _TRIM_THRESHOLD: KEPT_BYTES}
    taken = [set_option(name, value) for name, value in options.items()]
    return all(answer == 1 for answer in taken)
