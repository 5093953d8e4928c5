"""`headrace demo`: a fan-out that loses a worker to kill -9 and still finishes exactly once.

Two worker processes on a SQLite file of their own. In the middle one of them is killed; its claims run out,
the others take over, and the receipt is read from the store and from the table of effects.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace import control
from headrace.cli.receipts import answer_receipt
from headrace.cli.session import Session, of
from headrace.core.jobs import JobView
from headrace.core.tally import JobState, Tally

if TYPE_CHECKING:
    from headrace.cli.demo_flow import Effects
    from headrace.runtime.engine import Engine
    from headrace.runtime.supervisor import Supervisor

HOLD_S = 2.0
KILL_AT = 0.3
LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class DemoReceipt:
    """What happened, as read afterwards. `finish_lines` counts jobs, `findings` what the recount found wrong."""

    job: str
    state: str
    items: int
    done: int
    dead: int
    effects: int
    duplicates_refused: int
    kills: int
    takeovers: int
    finish_lines: int
    findings: int
    seconds: float

    @property
    def right(self) -> bool:
        """Everything ended well, once, in spite of the kill."""
        ended_well = self.state == JobState.FINISHED and self.done == self.items and not self.dead
        once = self.effects == self.done and self.finish_lines == 1 and not self.findings
        return ended_well and once and self.kills > 0

    @property
    def rows(self) -> Mapping[str, object]:
        return {
            "items submitted": self.items,
            "done": self.done,
            "dead": self.dead,
            "effects applied": self.effects,
            "duplicates refused": self.duplicates_refused,
            "workers killed": self.kills,
            "claims taken over": self.takeovers,
            "finish lines crossed": self.finish_lines,
            "findings of the recount": self.findings,
            "seconds": f"{self.seconds:.1f}",
        }

    @property
    def sentence(self) -> str:
        return "exactly once, in spite of the kill" if self.right else "the account is not right"


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    context: typer.Context,
    headless: Annotated[bool, typer.Option("--headless", help="No live view.")] = False,
    charges: Annotated[int, typer.Option(min=200, max=1_000_000, help="How many items to fan out to.")] = 2_000,
) -> int:
    """Fan out, kill a worker on purpose, and finish exactly once."""
    session = of(context)
    with tempfile.TemporaryDirectory(prefix="headrace-demo-", ignore_cleanup_errors=True) as folder:
        receipt = asyncio.run(_Demo(session, Path(folder), headless).run(charges))
    return answer_receipt(session, receipt)


class _Demo:
    """One run of the demo in a directory of its own."""

    def __init__(self, session: Session, folder: Path, headless: bool) -> None:
        self._session, self._folder = session, folder
        self._live = not headless and not session.json and sys.stderr.isatty()
        store = session.flags.get("store") or f"sqlite:///{folder / 'demo.db'}"
        self._settings = replace(session.settings(), store=store, hold_s=HOLD_S, processes=2, drain_s=2.0)
        os.environ["HEADRACE_DEMO_SINK"] = str(folder / "effects.db")

    async def run(self, charges: int) -> DemoReceipt:
        from headrace.cli.demo_flow import Effects, Order, flow
        from headrace.wiring import connect

        started = time.monotonic()
        effects = Effects(str(self._folder / "effects.db"))
        async with connect(self._settings.store) as engine, self._workers() as supervisor:
            async with asyncio.timeout(LIMIT_S):
                await supervisor.all_ready()
                self._session.say(f"worker processes {' and '.join(map(str, supervisor.pids))}; hold {HOLD_S:g} s")
                job = await engine.submit(flow, Order(charges))
                view = await self._follow(engine, supervisor, effects, job)
            receipt = await _receipt(engine, view, effects, supervisor.counts["kills"])
        effects.close()
        return replace(receipt, seconds=round(time.monotonic() - started, 2))

    @asynccontextmanager
    async def _workers(self) -> AsyncIterator[Supervisor]:
        from headrace.cli.worker import plan_for
        from headrace.runtime.seams import RealClock
        from headrace.runtime.supervisor import Supervisor

        plan = plan_for(self._settings, ["headrace.cli.demo_flow:flow"], self._session.debug)
        supervisor = Supervisor(plan, RealClock(), self._session.say)
        running = asyncio.ensure_future(supervisor.run())
        try:
            yield supervisor
            supervisor.drain()
        finally:
            # A Ctrl-C ends up here as well, and then there is no time for manners.
            if sys.exc_info()[0] is not None:
                supervisor.stop_now()
            await running

    async def _follow(self, engine: Engine, supervisor: Supervisor, effects: Effects, job: str) -> JobView:
        """Show the job as it moves, kill a worker on the way, and say when its work was taken over."""
        killed_at = taken_over = 0.0
        view: JobView | None = None
        with self._bars() as show:
            async for view in control.watch(engine.store, job):
                show(view.stages)
                if not killed_at and _share(view) >= KILL_AT and self._kill_one(supervisor, effects.busy()):
                    killed_at = time.monotonic()
                if killed_at and not taken_over and effects.receipt()["takeovers"]:
                    taken_over = time.monotonic() - killed_at
                    self._session.say(f"others took over {taken_over:.1f} s later")
        assert view is not None
        return view

    @contextmanager
    def _bars(self) -> Iterator[Callable[[Mapping[str, Tally]], None]]:
        if not self._live:
            yield lambda _stages: None
            return
        from rich.console import Console

        from headrace.cli.progress import Bars

        bars = Bars(Console(stderr=True))
        with bars.progress:
            yield bars.show

    def _kill_one(self, supervisor: Supervisor, busy: list[int]) -> bool:
        """Kill a worker that is in the middle of something, so that there is something to take over."""
        for pid in busy:
            if pid in supervisor.pids:
                self._session.say(f"kill -9 {pid}, on purpose: its claims run out within {HOLD_S:g} s")
                os.kill(pid, signal.SIGKILL)
                return True
        return False


def _share(view: JobView) -> float:
    tally = view.stages["charge"]
    return tally.ended / tally.total if tally.total else 0.0


async def _receipt(engine: Engine, view: JobView, effects: Effects, kills: int) -> DemoReceipt:
    whole = sum(view.stages.values(), Tally())
    return DemoReceipt(
        job=view.id,
        state=view.state.value,
        items=whole.total,
        done=whole.done,
        dead=whole.dead,
        **effects.receipt(),
        kills=kills,
        finish_lines=len(await engine.store.finishes(view.id)),
        findings=len(await engine.verify(view.id)),
        seconds=0.0,
    )
