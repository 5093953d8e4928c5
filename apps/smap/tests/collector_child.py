"""A collector service as a process of its own, as `headrace smap collector` runs it."""

from __future__ import annotations

import asyncio
import os
from functools import partial

from headrace_smap.serving import run
from headrace_smap.settings import load

if __name__ == "__main__":
    asyncio.run(run("collector", load(os.environ, http_port=0), partial(print, flush=True)))
