"""`headrace effects`: what stands in a sink, read from the sink itself."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace import control
from headrace.cli.documents import moment, second
from headrace.cli.session import of
from headrace.core.errors import NotFound

if TYPE_CHECKING:
    from headrace.ports.sink import Sink
    from headrace.runtime.effects import EffectLine
    from headrace.runtime.engine import Engine


def register(app: typer.Typer) -> None:
    app.command()(effects)


def effects(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FLOW|SINK", help="app:flow for its sinks, or the URL of one.")],
    job: Annotated[str | None, typer.Option(help="Only of this job: its id, or its end.")] = None,
    left_behind: Annotated[bool, typer.Option("--left-behind", help="Only of items that did not end done.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 100,
) -> None:
    """What stands in a sink, and what was left behind there."""
    session = of(context)

    async def work(engine: Engine) -> list[EffectLine]:
        return await _read(engine, _sinks(source), await _meant(engine, job), (left_behind, limit))

    lines = session.call(work)
    session.answer([_document(line) for line in lines], lambda console: _show(console, lines))


async def _meant(engine: Engine, job: str | None) -> str:
    """The whole id of the job; of one that the store has forgotten, whatever was given."""
    if job is None:
        return ""
    try:
        return await control.find_job(engine.store, job)
    except NotFound:
        return job


def _sinks(source: str) -> list[Sink]:
    """The sinks that a flow's stages declare, or the one that a URL names."""
    from headrace.core.redaction import redacted
    from headrace.wiring import missing
    from headrace.wiring import sink as sink_at

    if ":" in source and "://" not in source:
        from headrace.cli.flows import load_flow

        flow = load_flow(source)
        declared = {id(sink): sink for stage in flow.stages.values() for sink in stage.sinks}
        if not declared:
            raise NotFound(f"no stage of flow {flow.name!r} declares a sink", "declare it: @flow.stage(sink=…)")
        return list(declared.values())
    if missing(source):
        raise NotFound(f"there is no sink at {redacted(source)}", "name the database that the handlers write to")
    return [sink_at(source)]


async def _read(engine: Engine, sinks: list[Sink], job: str, which: tuple[bool, int]) -> list[EffectLine]:
    only_left, limit = which
    found: list[EffectLine] = []
    for sink in sinks:
        try:
            async with aclosing(engine.effects(sink, job, only_left)) as lines:
                async for line in lines:
                    found.append(line)
                    if len(found) >= limit:
                        return found
        finally:
            await sink.close()
    return found


def _document(line: EffectLine) -> dict[str, Any]:
    return {
        "key": line.effect.key,
        "operation": line.effect.operation,
        "fence": line.effect.fence,
        "refused": line.effect.refused,
        "applied_at": moment(line.effect.applied_at),
        "sink": line.sink,
        "guarantee": line.guarantee,
        "state": line.state,
        "left_behind": line.left_behind,
    }


def _show(console: Any, lines: list[EffectLine]) -> None:
    from rich.markup import escape

    from headrace.cli.lists import Column, print_list, short_ids
    from headrace.cli.tables import state

    owners = [line.effect.key.partition("/") for line in lines]
    ends = short_ids([owner for owner, _, _ in owners])
    short = [end + slash + place for end, (_, slash, place) in zip(ends, owners, strict=True)]
    applied = [line.effect.applied_at for line in lines]
    columns = [
        Column("effect", [escape(line.effect.key) for line in lines], [escape(key) for key in short]),
        Column("sink", [escape(line.sink) for line in lines], spare=2),
        Column("guarantee", [line.guarantee for line in lines], spare=3),
        Column("operation", [line.effect.operation for line in lines]),
        Column("fence", [str(line.effect.fence) for line in lines], spare=4),
        Column("refused", [f"{line.effect.refused:,}" for line in lines]),
        Column("applied", [moment(at) or "" for at in applied], [second(at) for at in applied], spare=1),
        Column("item", [state(line.state) for line in lines]),
        Column("", ["left behind" if line.left_behind else "" for line in lines]),
    ]
    print_list(console, columns)
