"""A project service as a process of its own, to be killed: prints its address when it is ready."""

from __future__ import annotations

import asyncio
import os

from headrace.services import log_to_stderr
from headrace_smap.frame import FRAME

if __name__ == "__main__":
    log_to_stderr()
    asyncio.run(FRAME.serve("project", os.environ, None, lambda line: print(line, flush=True)))
