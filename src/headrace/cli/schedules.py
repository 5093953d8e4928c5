"""`headrace schedules …`: flows that are submitted by the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from headrace.cli.groups import command_group
from headrace.cli.session import Session, of
from headrace.core.errors import InvalidPayload
from headrace.core.schedules import Misfire, Overlap, ScheduleView

if TYPE_CHECKING:
    from headrace.runtime.engine import Engine

app = command_group("schedules", "Flows that are submitted by the clock.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a schedule.")]


def register(tree: typer.Typer) -> None:
    tree.add_typer(app)


@app.command("list")
def list_schedules(context: typer.Context) -> None:
    """List schedules by name, with what comes next and what came last."""
    from headrace.cli.schedule_views import print_schedules, schedule_document

    session = of(context)
    views = session.call(lambda engine: engine.schedules.list())
    session.answer([schedule_document(view) for view in views], lambda console: print_schedules(console, views))


@app.command()
def add(
    context: typer.Context,
    name: Name,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="app:flow, or the name that workers know it by.")],
    when: Annotated[str, typer.Argument(metavar="CRON", help='"*/5 * * * *", or a duration such as PT5M.')],
    payload: Annotated[str | None, typer.Option(help="The item as JSON; without it, the moment.")] = None,
    stage: Annotated[str, typer.Option(help="The root stage, where a flow has several.")] = "",
    tz: Annotated[str, typer.Option(help="The time zone of the cron expression.")] = "UTC",
    misfire: Annotated[Misfire, typer.Option(help="Moments at which no worker ran.")] = Misfire.ONCE,
    jitter_s: Annotated[float, typer.Option(help="Fire up to this much later.")] = 0.0,
    overlap: Annotated[Overlap, typer.Option(help="While the job of the fire before is open.")] = Overlap.ALLOW,
) -> None:
    """Submit a flow by the clock. Any running worker that has the flow fires."""
    from headrace.cli.flows import load_flow

    session = of(context)
    # By its name alone nothing is checked: the code may be elsewhere.
    meant = load_flow(flow) if ":" in flow else flow
    options: Any = {"tz": tz, "misfire": misfire.value, "jitter_s": jitter_s, "overlap": overlap.value}
    options["tenant"] = session.settings().tenant
    if payload is not None:
        options["payload"] = _decoded(payload)

    async def work(engine: Engine) -> ScheduleView:
        await engine.schedules.add(name, meant, when, stage, **options)
        return next(view for view in await engine.schedules.list() if view.schedule.name == name)

    view = session.call(work, create=True)
    if not view.attended:
        session.say(f"no running worker has the flow {view.schedule.flow!r}: {name} fires when one does")
    _show(session, view)


@app.command()
def pause(context: typer.Context, name: Name) -> None:
    """Fire nothing until it is resumed."""
    _steer(context, name, "paused", lambda engine: engine.schedules.pause(name))


@app.command()
def resume(context: typer.Context, name: Name) -> None:
    """Go on from now: what was due during the pause is not made up for."""
    _steer(context, name, "resumed", lambda engine: engine.schedules.resume(name))


@app.command()
def run(context: typer.Context, name: Name) -> None:
    """Let a worker fire once now. Also if it is paused, and whatever overlaps."""
    _steer(context, name, "asked to run", lambda engine: engine.schedules.run(name))


@app.command()
def remove(context: typer.Context, name: Name) -> None:
    """Forget a schedule. Its jobs stay."""
    _steer(context, name, "removed", lambda engine: engine.schedules.remove(name))


def _show(session: Session, view: ScheduleView) -> None:
    from headrace.cli.schedule_views import print_schedules, schedule_document

    session.answer(schedule_document(view), lambda console: print_schedules(console, [view]))


def _steer(context: typer.Context, name: str, done: str, verb: Any) -> None:
    """A verb that is already true is no failure: the answer says whether this call changed anything."""
    session = of(context)
    changed: bool = session.call(verb)
    said = f"{name} {done}" if changed else f"{name} left as it was"
    session.answer({"schedule": name, "changed": changed}, lambda console: console.print(said, markup=False))


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidPayload(f"--payload is not JSON: {error}", "a text is JSON with its quotes: '\"text\"'") from None
