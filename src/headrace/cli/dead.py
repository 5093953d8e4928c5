"""`headrace dead …`: dead letters, and the way back from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from headrace import control
from headrace.cli.documents import dead_document
from headrace.cli.groups import command_group
from headrace.cli.session import of
from headrace.cli.tables import dead_page, print_letters
from headrace.core.errors import CallerError, NotFound
from headrace.core.jobs import DeadFilter, DeadView

if TYPE_CHECKING:
    from headrace.runtime.engine import Engine

    Verb = Callable[[Engine, DeadFilter], Awaitable[int]]

app = command_group("dead", "Dead letters: list, show, redrive, purge.")

Job = Annotated[str | None, typer.Option("--job", help="Only of this job: its id, or its end.")]
Flow = Annotated[str | None, typer.Option("--flow", help="Only of this flow.")]
Stage = Annotated[str | None, typer.Option("--stage", help="Only of this stage.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Only with this reason.")]
Rule = Annotated[str | None, typer.Option("--rule", help="Only with this rule.")]
Item = Annotated[str | None, typer.Option("--item", metavar="STAGE/SEQ", help="Only this item of the job.")]
Fingerprint = Annotated[str | None, typer.Option("--fingerprint", help="Only with this error's fingerprint.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="At most this many.")]
All = Annotated[bool, typer.Option("--all", help="Every dead letter: needed when nothing else narrows it.")]


def register(tree: typer.Typer) -> None:
    tree.add_typer(app)


@app.command("list")
def list_dead(
    context: typer.Context,
    job: Job = None,
    flow: Flow = None,
    stage: Stage = None,
    reason: Reason = None,
    rule: Rule = None,
    fingerprint: Fingerprint = None,
    limit: Limit = 100,
) -> None:
    """List dead letters that were not redriven, newest first."""
    session = of(context)
    which = DeadFilter(session.flags.get("tenant"), job, flow, stage, reason, rule, fingerprint, limit)
    letters = session.call(lambda engine: _letters(engine, which))
    session.answer([dead_document(letter) for letter in letters], lambda console: print_letters(console, letters))


@app.command()
def show(
    context: typer.Context,
    job: Annotated[str, typer.Argument(metavar="JOB", help="The id of a job, or its end.")],
    item: Annotated[str | None, typer.Argument(metavar="STAGE/SEQ", help="Only this item.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many.")] = 10,
) -> None:
    """Show a job's dead letters with their tracebacks, newest first."""
    session = of(context)
    stage, seq = _place(job, item)
    which = DeadFilter(session.flags.get("tenant"), job, stage=stage, seq=seq, limit=limit)
    letters = session.call(lambda engine: _letters(engine, which))
    if not letters:
        raise NotFound(f"no dead letter of {item or job}", "headrace dead list")

    def render(console: Console) -> None:
        for letter in letters:
            dead_page(console, letter)
            console.print()

    session.answer([dead_document(letter) for letter in letters], render)


def _place(job: str, item: str | None) -> tuple[str | None, int | None]:
    if item is None:
        return None, None
    stage, _, seq = item.rpartition("/")
    if not stage or not (seq.isascii() and seq.isdigit()):
        raise CallerError(f"{item!r} is not STAGE/SEQ", f"headrace dead list --job {job} lists them")
    return stage, int(seq)


def _narrowed(job: str | None, stage: str | None, item: str | None) -> tuple[str | None, int | None]:
    """Stage and number of the one item that is meant, if one is."""
    if item is None:
        return stage, None
    if job is None or stage is not None:
        raise CallerError("--item says which item of a job", "name the job by --job, and no --stage")
    return _place(job, item)


@app.command()
def redrive(
    context: typer.Context,
    job: Job = None,
    flow: Flow = None,
    stage: Stage = None,
    item: Item = None,
    reason: Reason = None,
    rule: Rule = None,
    fingerprint: Fingerprint = None,
    limit: Limit = 1_000_000,
    everything: All = False,
) -> None:
    """Give dead items another passage: a new generation of their job."""
    stage, seq = _narrowed(job, stage, item)
    tenant = of(context).flags.get("tenant")
    which = DeadFilter(tenant, job, flow, stage, reason, rule, fingerprint, limit, seq)
    _apply(context, which, everything, "redriven", lambda engine, meant: engine.redrive(meant))


@app.command()
def purge(
    context: typer.Context,
    job: Job = None,
    flow: Flow = None,
    stage: Stage = None,
    item: Item = None,
    reason: Reason = None,
    rule: Rule = None,
    fingerprint: Fingerprint = None,
    limit: Limit = 1_000_000,
    everything: All = False,
) -> None:
    """Forget dead letters. The tallies keep counting them."""
    stage, seq = _narrowed(job, stage, item)
    tenant = of(context).flags.get("tenant")
    which = DeadFilter(tenant, job, flow, stage, reason, rule, fingerprint, limit, seq)
    _apply(context, which, everything, "purged", lambda engine, meant: engine.purge(meant))


async def _meant(engine: Engine, which: DeadFilter) -> DeadFilter:
    """With the whole id of the job, which may be given by its end."""
    return which if which.job is None else replace(which, job=await control.find_job(engine.store, which.job))


async def _letters(engine: Engine, which: DeadFilter) -> Sequence[DeadView]:
    return await engine.dead(await _meant(engine, which))


def _apply(context: typer.Context, which: DeadFilter, everything: bool, done: str, verb: Verb) -> None:
    """A verb without a filter is more often a slip than a wish."""
    if not everything and replace(which, limit=0) == DeadFilter(limit=0):
        raise CallerError("nothing narrows down which dead letters", "name --job, --rule, … or say --all")

    async def work(engine: Engine) -> int:
        return await verb(engine, await _meant(engine, which))

    session = of(context)
    count = session.call(work)
    session.answer({done: count}, lambda console: console.print(f"{count:,} {done}"))
