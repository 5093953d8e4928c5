"""For Python under libfaketime, which finds this by PYTHONPATH.

With the monotonic clock left alone libfaketime refuses to sleep until a moment of it, which is what `time.sleep` asks
for, and threads that sleep die. Waiting for nothing with `select` is not touched by it.
"""

from __future__ import annotations

import select
import time
from typing import SupportsIndex


def _sleep(seconds: float | SupportsIndex, /) -> None:
    select.select((), (), (), float(seconds))


time.sleep = _sleep
