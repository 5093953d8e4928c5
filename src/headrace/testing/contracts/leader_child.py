"""A process that would lead: `python -m headrace.testing.contracts.leader_child URL FILE [unfenced]`.

As leader it adds a line with its fence and pid to the file, again and again. On SIGUSR1 it freezes itself between two
lines. `unfenced` is the broken twin: a leader that does not ask the clock before its steps.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from headrace.runtime.seams import Seams
from headrace.services.leadership import Leadership, NamedLease, Term
from headrace.wiring import connect

LEASE, HOLD_S, TICK_S = "contract/leader", 1.5, 0.02


class Unfenced(Leadership):
    def fenced(self, loop: Coroutine[Any, Any, None], term: Term) -> Coroutine[Any, Any, None]:
        return loop


async def run(url: str, file: Path, kind: type[Leadership]) -> None:
    stop, freeze = asyncio.Event(), asyncio.Event()
    running = asyncio.get_running_loop()
    running.add_signal_handler(signal.SIGTERM, stop.set)
    running.add_signal_handler(signal.SIGUSR1, freeze.set)

    async def loop(term: Term) -> None:
        while not stop.is_set():
            with file.open("a") as lines:
                lines.write(f"{term.fence} {os.getpid()}\n")
            if freeze.is_set():
                freeze.clear()
                # In the middle of the pause: when it thaws, the next line is due before anything else is.
                running.call_later(TICK_S / 2, os.kill, os.getpid(), signal.SIGSTOP)
            await asyncio.sleep(TICK_S)

    async with connect(url) as engine:
        await kind(NamedLease(engine.leases, LEASE, HOLD_S), loop, stop, Seams()).run()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], Path(sys.argv[2]), Unfenced if "unfenced" in sys.argv[3:] else Leadership))
