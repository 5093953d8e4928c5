"""What the benches share: a fresh store, worker processes beside it, and results as JSON lines."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

from headrace.cli.worker import plan_for
from headrace.runtime.seams import RealClock
from headrace.runtime.supervisor import Supervisor
from headrace.settings import Settings

HERE = Path(__file__).resolve().parent
STORES = ("sqlite", "postgres")


def options(question: str) -> argparse.ArgumentParser:
    """Arguments that every bench has."""
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--json", action="store_true", help="only JSON lines on stdout")
    return parser


def tell(result: dict[str, object], as_json: bool) -> None:
    """One result, one line."""
    if as_json:
        print(json.dumps(result), flush=True)
    else:
        print("  ".join(f"{name} {_shown(value)}" for name, value in result.items()), flush=True)


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


@contextmanager
def fresh_store(kind: str) -> Iterator[str]:
    """The URL of an empty store on a real disk or a real server, gone afterwards."""
    if kind == "postgres":
        from headrace.testing.rig.postgres import PostgresServer

        with PostgresServer() as server, server.database() as url:
            yield url
        return
    # In the current directory, because a temporary one may be in memory, where syncing costs nothing.
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as folder:
        yield f"sqlite:///{folder}/bench.db"


@asynccontextmanager
async def workers(url: str, flow: str, processes: int = 1) -> AsyncIterator[Supervisor]:
    """Worker processes that are ready to claim."""
    plan = plan_for(Settings(store=url, processes=processes), [f"flows:{flow}"])
    path = os.pathsep.join(part for part in (str(HERE), os.environ.get("PYTHONPATH", "")) if part)
    programs = [replace(program, environment={**program.environment, "PYTHONPATH": path}) for program in plan.programs]
    plan = replace(plan, programs=tuple(programs))
    supervisor = Supervisor(plan, RealClock(), lambda text: print(text, file=sys.stderr))
    running = asyncio.ensure_future(supervisor.run())
    try:
        ready = asyncio.ensure_future(supervisor.all_ready())
        await asyncio.wait([ready, running], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            raise RuntimeError(f"the workers ended with {running.result()}")
        yield supervisor
    finally:
        supervisor.drain()
        await running


def peak_rss_mb(pids: Sequence[int]) -> float:
    """The largest resident size that any of these processes ever had."""
    peaks = [0]
    for pid in pids:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                peaks.append(int(line.split()[1]))
    return round(max(peaks) / 1024, 1)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
