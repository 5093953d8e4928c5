"""A collector service as a process of its own, as `headrace smap collector` runs it."""

from __future__ import annotations

import asyncio
import os
from functools import partial

from headrace_smap.frame import FRAME

if __name__ == "__main__":
    asyncio.run(FRAME.serve("collector", os.environ, 0, partial(print, flush=True)))
