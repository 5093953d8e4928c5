"""A project service as a process of its own, to be killed: prints its address when it is ready."""

from __future__ import annotations

import asyncio
import os

from headrace.apps.smap.logging import to_stderr
from headrace.apps.smap.serving import run
from headrace.apps.smap.settings import load

if __name__ == "__main__":
    to_stderr()
    asyncio.run(run("project", load(os.environ), lambda line: print(line, flush=True)))
