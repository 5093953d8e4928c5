"""`headrace smap demo`: the four services on one directory, a project from start to finish, and its report.

Nothing is installed and no server is needed. The posts are made up (and say so), a few of them broken on purpose: they
are counted as errors, and the bar reaches 100 % all the same.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol
from zoneinfo import ZoneInfo

import typer

from headrace.commands import (
    DemoFolder,
    Headless,
    Session,
    answer_receipt,
    demo_folder,
    environment_without,
    of,
    open_page,
)
from headrace.errors import NotFound
from headrace.services import bare_errors, log_to_stderr, serving

if TYPE_CHECKING:
    import httpx

    from headrace_smap.parts import SmapParts

PROJECT_NAME = "VinFast VF3, simulated"
KEYWORDS = ("VinFast", "VF3")
PLATFORMS = ("tiktok", "facebook", "youtube")
DAYS = 7
LOOK_S = 0.1
WAIT_S_MAX = 1_800.0
STALLED_S = 5.0
END_S_MAX = 10.0
WITNESS = "smap.demo"


@dataclass(frozen=True, slots=True)
class ProjectReceipt:
    """What the demo did."""

    project: str
    posts: int
    analysed: int
    errors: int
    dead_letters: int
    finish_lines: int
    seconds: float
    report: str

    @property
    def right(self) -> bool:
        return self.finish_lines == 1 and self.posts == self.analysed + self.errors

    @property
    def rows(self) -> Mapping[str, object]:
        return {
            "posts found": self.posts,
            "analysed": self.analysed,
            "failed, and counted": self.errors,
            "dead letters": self.dead_letters,
            "finish lines crossed": self.finish_lines,
            "seconds": f"{self.seconds:,.1f}",
            "report": self.report,
        }

    @property
    def sentence(self) -> str:
        return "every post is accounted for" if self.right else "the count is not right"


class Show(Protocol):
    def __call__(self, progress: dict[str, Any]) -> None: ...


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    context: typer.Context,
    posts: Annotated[int, typer.Option(min=50, max=1_000_000, help="About how many posts.")] = 2_000,
    folder: DemoFolder = None,
    headless: Headless = False,
) -> int:
    """Run the four services on one directory and analyse a project of made-up posts.

    Shows the progress to 100 % and leaves a report. Needs no server.
    """
    session = of(context)
    place = demo_folder(folder, "smap").absolute()
    with bare_errors():
        receipt = asyncio.run(_whole(session, place, posts))
    code = answer_receipt(session, receipt)
    open_page(session, Path(receipt.report), headless)
    return code


async def _whole(session: Session, place: Path, posts: int) -> ProjectReceipt:
    import httpx

    from headrace_smap.count.keeper import keeping
    from headrace_smap.frame import FRAME, NAME, NAMES, service_of
    from headrace_smap.parts import open_parts

    log_to_stderr(logging.ERROR)
    per_task = max(1, round(posts / (len(KEYWORDS) * len(PLATFORMS) * DAYS)))
    crawlers = f"*=simulated:posts={per_task}&page=50&broken=0.01&latency=0.02"
    # Without the servers that the environment may name: this is the embedded form.
    environment = {**environment_without("SMAP_"), "SMAP_HOME": str(place), "SMAP_CRAWLERS": crawlers}
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(open_parts(FRAME.load(environment, http_port=0)))
        letters = await _witness(parts)
        await stack.enter_async_context(keeping(parts, stop))
        urls = {}
        for name in NAMES:
            ready = await stack.enter_async_context(serving(service_of(name, parts), parts.settings, stop, NAME))
            urls[name] = ready.url
            session.say(ready.line)
        client = await stack.enter_async_context(httpx.AsyncClient(timeout=30, trust_env=False))
        begun = time.monotonic()
        project = await _create(client, urls["project"], parts.settings.timezone)
        session.say(f"project {project}: {urls['insight']}/projects/{project}/report")
        with _bar(session) as show:
            await _follow(client, f"{urls['insight']}/projects/{project}/progress", show)
        seconds = time.monotonic() - begun
        page = await client.get(f"{urls['insight']}/projects/{project}/report.html")
        report = place / f"report-{project}.html"
        await asyncio.to_thread(report.write_bytes, page.raise_for_status().content)
        receipt = await _receipt(parts, project, seconds, report)
        return replace(receipt, dead_letters=receipt.dead_letters - letters)


async def _create(client: httpx.AsyncClient, url: str, zone: ZoneInfo) -> str:
    # Up to yesterday: of a day that is not over, simulation would tell what has not happened yet.
    last = datetime.now(zone).date() - timedelta(days=1)
    order = {
        "name": PROJECT_NAME,
        "keywords": list(KEYWORDS),
        "targets": [],
        "date_range": [(last - timedelta(days=DAYS - 1)).isoformat(), last.isoformat()],
    }
    answer = await client.post(f"{url}/projects", json=order)
    return str(answer.raise_for_status().json()["project_id"])


async def _follow(client: httpx.AsyncClient, url: str, show: Show) -> None:
    """Until the finish line; what does not come to it in time is an error."""
    from headrace_smap.values import FINAL

    before, moved_at = None, time.monotonic()
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            progress = (await client.get(url)).json()
            show(progress)
            if progress["status"] in FINAL:
                return
            if progress != before:
                before, moved_at = progress, time.monotonic()
            elif time.monotonic() - moved_at > STALLED_S:
                # Whatever they wait for, such as room on the disk, they say as a warning.
                log_to_stderr(logging.WARNING)
            await asyncio.sleep(LOOK_S)


async def _witness(parts: SmapParts) -> int:
    """Somebody else who hears of every end, so that the receipt can say how many there were. Answers how many dead
    letters an earlier demo left in the same place."""
    from headrace.ports import Subscription
    from headrace_smap.envelope import ERRORS_QUEUE, JOB_COMPLETED

    await parts.bus.subscribe(Subscription(WITNESS, (JOB_COMPLETED,)))
    try:
        return (await parts.engine.bus.backlog(ERRORS_QUEUE)).waiting
    except NotFound:
        return 0


async def _receipt(parts: SmapParts, project: str, seconds: float, report: Path) -> ProjectReceipt:
    from headrace_smap.envelope import ERRORS_QUEUE
    from headrace_smap.insight.report.content import gather

    found = await gather(parts.database, project, parts.settings.timezone)
    assert found is not None
    lines = len(await _ends(parts, project))
    letters = await parts.engine.bus.backlog(ERRORS_QUEUE)
    return ProjectReceipt(
        project, found.total, found.posts, found.errors, letters.waiting, lines, round(seconds, 2), str(report)
    )


async def _ends(parts: SmapParts, project: str) -> set[str]:
    """The ends of this project that were told, after a look at all that waits: there may be those of earlier demos. An
    end is told a moment after the bar shows it."""
    from headrace_smap import envelope

    ends: set[str] = set()
    until = time.monotonic() + END_S_MAX
    while time.monotonic() < until:
        heard = (await parts.bus.receive(WITNESS, "demo", 100, END_S_MAX)).deliveries
        ends |= {one.event.event_id for one in heard if envelope.read(one.event.body).project == project}
        await parts.bus.ack(heard)
        if ends and not heard:
            break
        await asyncio.sleep(0 if heard else LOOK_S)
    return ends


@contextmanager
def _bar(session: Session) -> Iterator[Show]:
    if session.json or not sys.stderr.isatty():
        last: list[object] = []

        def lines(progress: dict[str, Any]) -> None:
            if not session.json and last != [progress]:
                session.say(
                    f"{progress['status']:<16} {progress.get('processed', 0):>8,} of {progress.get('total', 0):,}"
                    f"  {progress['percent']:6.2f} %"
                )
            last[:] = [progress]

        yield lines
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description:<16}"), BarColumn(), MofNCompleteColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("INITIALIZING", total=None)

        def bar(progress: dict[str, Any]) -> None:
            total = progress.get("total") or None
            bars.update(
                task, description=str(progress["status"]), completed=int(progress.get("processed", 0)), total=total
            )

        yield bar
