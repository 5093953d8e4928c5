"""A project service as a process of its own, to be killed: prints its address when it is ready."""

from __future__ import annotations

import asyncio
import os

from headrace_smap.logging import to_stderr
from headrace_smap.serving import run
from headrace_smap.settings import load

if __name__ == "__main__":
    to_stderr()
    asyncio.run(run("project", load(os.environ), lambda line: print(line, flush=True)))
