"""`headrace jobs …`: submit, look at and steer jobs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from headrace import control
from headrace.cli.documents import finish_document, item_document, job_document
from headrace.cli.failures import Exit
from headrace.cli.groups import command_group
from headrace.cli.session import of
from headrace.cli.tables import job_page, print_items, print_jobs
from headrace.core.errors import CallerError, InvalidPayload
from headrace.core.jobs import KEEP_S, ItemView, JobFilter, JobView
from headrace.core.tally import JobState

if TYPE_CHECKING:
    from headrace.runtime.engine import Engine

app = command_group("jobs", "Submit, look at and steer jobs.")

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The id of a job, or its end.")]


def register(tree: typer.Typer) -> None:
    tree.add_typer(app)


@app.command()
def submit(
    context: typer.Context,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="module:attribute, as in app:flow.")],
    payload: Annotated[str | None, typer.Argument(metavar="PAYLOAD", help="The root item as JSON.")] = None,
    file: Annotated[str | None, typer.Option(help="Many items: a file of JSON lines, - for stdin.")] = None,
    key: Annotated[str | None, typer.Option(help="One key is one job, however often it is submitted.")] = None,
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    delay_s: Annotated[float, typer.Option(help="Not before this many seconds from now.")] = 0.0,
    keep_s: Annotated[float, typer.Option(help="How long items can be listed after the end.")] = KEEP_S,
    wait_s: Annotated[float | None, typer.Option(help="Wait for the end, at most this long.")] = None,
) -> int:
    """Open a job with one item, or with many."""
    from headrace.cli.flows import load_flow

    session, loaded = of(context), load_flow(flow)
    if (payload is None) == (file is None):
        raise CallerError("a job needs one PAYLOAD or a --file of them", "headrace jobs submit app:flow '{\"a\": 1}'")

    async def work(engine: Engine) -> tuple[JobView, bool]:
        options: Any = {"key": key, "tenant": session.settings().tenant}
        options |= {"priority": priority, "delay_s": delay_s, "keep_s": keep_s}
        if file is None:
            job = await engine.submit(loaded, _decoded(payload or ""), **options)
        else:
            job = await engine.submit_many(loaded, _lines(file), **options)
        if wait_s is None:
            return await engine.job(job), True
        # Told at once: whoever interrupts the waiting wants to know what goes on without them.
        session.say(f"job {job} is submitted; waiting at most {wait_s:g} s for its end")
        try:
            return await engine.wait(job, wait_s), True
        except TimeoutError:
            return await engine.job(job), False

    view, in_time = session.call(work, create=True)
    session.answer(job_document(view), lambda console: console.print(view.id))
    if not in_time:
        session.say(f"headrace: job {view.id} is still open after {wait_s:g} s\n  → headrace jobs watch {view.id}")
        return Exit.TIMED_OUT
    return Exit.OK if wait_s is None else _code(view)


@app.command("list")
def list_jobs(
    context: typer.Context,
    state: Annotated[JobState | None, typer.Option(help="Only jobs in this state.")] = None,
    flow: Annotated[str | None, typer.Option(help="Only jobs of this flow.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 50,
    before: Annotated[str | None, typer.Option(metavar="JOB", help="The last job of the page before.")] = None,
) -> None:
    """List jobs, newest first."""
    session = of(context)

    async def work(engine: Engine) -> list[JobView]:
        last = None if before is None else await control.find_job(engine.store, before)
        which = JobFilter(session.flags.get("tenant"), flow, state, last, limit)
        return [view async for view in control.every_job(engine.store, which)]

    views = session.call(work)
    session.answer([job_document(view) for view in views], lambda console: print_jobs(console, views))


@app.command()
def show(context: typer.Context, job: JobArgument) -> None:
    """One job with its tallies and finish lines."""
    session = of(context)

    async def work(engine: Engine) -> tuple[JobView, list[Any]]:
        view = await engine.job(await control.find_job(engine.store, job))
        return view, [finish_document(finish) for finish in await engine.store.finishes(view.id)]

    view, finishes = session.call(work)
    session.answer(job_document(view) | {"finish_lines": finishes}, lambda console: job_page(console, view, finishes))


@app.command()
def items(
    context: typer.Context,
    job: JobArgument,
    stage: Annotated[str | None, typer.Option(help="Only items of this stage.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 100,
) -> None:
    """List the items of a job in order."""
    session = of(context)

    async def work(engine: Engine) -> list[ItemView]:
        view = await engine.job(await control.find_job(engine.store, job))
        if stage is not None:
            view.graph.position(stage)
        stages = [stage] if stage is not None else list(view.stages)
        return [item async for item in control.every_item(engine, view.id, stages, limit)]

    found = session.call(work)
    session.answer([item_document(item) for item in found], lambda console: print_items(console, found))


@app.command()
def watch(
    context: typer.Context,
    job: JobArgument,
    timeout_s: Annotated[float | None, typer.Option(help="Give up after this long.")] = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="One JSON line per change.")] = False,
) -> int:
    """Follow a job to its end, one bar per stage."""
    from headrace.cli.progress import follow

    session = of(context)

    async def work(engine: Engine) -> JobView:
        async with asyncio.timeout(timeout_s):
            whole = await control.find_job(engine.store, job)
            return await follow(session, control.watch(engine.store, whole), jsonl)

    try:
        view = session.call(work)
    except TimeoutError:
        raise TimeoutError(f"job {job} is still open after {timeout_s:g} s") from None
    if not jsonl:
        session.answer(job_document(view), lambda console: console.print(f"{view.id} {view.state.value}"))
    return _code(view)


@app.command()
def cancel(
    context: typer.Context,
    job: JobArgument,
    item: Annotated[str | None, typer.Option(metavar="STAGE/SEQ", help="Only this item.")] = None,
) -> None:
    """End what waits as cancelled. What is held may still finish within its hold time."""
    if item is None:
        _steer(context, job, "cancelled", lambda engine, whole: engine.cancel(whole))
        return
    stage, _, seq = item.rpartition("/")
    if not stage or not seq.isdigit():
        raise CallerError(f"--item {item!r} is not STAGE/SEQ", f"headrace jobs items {job} lists them")
    _steer(context, job, "cancelled", lambda engine, whole: engine.cancel_item(whole, stage, int(seq)))


@app.command()
def pause(context: typer.Context, job: JobArgument) -> None:
    """Grant nothing of this job until it is resumed."""
    _steer(context, job, "paused", lambda engine, whole: engine.pause(whole))


@app.command()
def resume(context: typer.Context, job: JobArgument) -> None:
    """Undo a pause."""
    _steer(context, job, "resumed", lambda engine, whole: engine.resume(whole))


def _steer(context: typer.Context, job: str, done: str, verb: Any) -> None:
    """A verb that is already true is no failure: the answer says whether this call changed anything."""
    session = of(context)

    async def work(engine: Engine) -> tuple[str, bool]:
        whole = await control.find_job(engine.store, job)
        return whole, await verb(engine, whole)

    whole, changed = session.call(work)
    said = f"{whole} {done}" if changed else f"{whole} left as it was"
    session.answer({"job": whole, "changed": changed}, lambda console: console.print(said))


def _code(view: JobView) -> int:
    return Exit.FAILED if view.state in (JobState.FAILED, JobState.CANCELLED) else Exit.OK


def _decoded(text: str, where: str = "PAYLOAD") -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidPayload(f"{where} is not JSON: {error}", "a text is JSON with its quotes: '\"text\"'") from None


def _lines(file: str) -> Iterator[Any]:
    """The payloads of a file of JSON lines, one at a time, so that its size does not matter."""
    try:
        with nullcontext(sys.stdin) if file == "-" else Path(file).open(encoding="utf-8") as source:
            for number, line in enumerate(source, 1):
                if line.strip():
                    yield _decoded(line, f"line {number} of {file}")
    except OSError as error:
        raise CallerError(f"cannot read {file}: {error.strerror}") from None
