"""A service keeps little of the memory that its threads have freed."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import ctypes, sys, threading
from pathlib import Path
from headrace.services.freed_memory import keep_little

assert sys.argv[1] == "as it is" or keep_little()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
together = threading.Barrier(12)

def take_and_free():
    together.wait()
    # Each is smaller than what goes back at once, and all are there at a time: so they come from the thread's heap.
    taken = [libc.malloc(20_000) for _ in range(400)]
    for each in taken:
        ctypes.memset(each, 1, 20_000)
    # The last one stays, and keeps those before it where they are.
    for each in taken[:-1]:
        libc.free(each)
    together.wait()

threads = [threading.Thread(target=take_and_free) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
maps = Path("/proc/self/smaps").read_text()
print(maps.count("---p 00000000 00:00 0"))
"""


def heaps(how: str) -> int:
    """How many heaps of threads there are: each is followed by room that it may grow into, which nobody may read."""
    said = subprocess.run([sys.executable, "-c", SCRIPT, how], check=True, capture_output=True, text=True).stdout
    return int(said)


def test_threads_share_one_heap() -> None:
    assert heaps("kept little") + 2 < heaps("as it is")
