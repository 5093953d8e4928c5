"""`headrace effects`: what stands in a sink, read from the sink itself."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.documents import moment
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
    job: Annotated[str | None, typer.Option(help="Only of this job.")] = None,
    left_behind: Annotated[bool, typer.Option("--left-behind", help="Only of items that did not end done.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 100,
) -> None:
    """What stands in a sink, and what was left behind there."""
    session = of(context)

    async def work(engine: Engine) -> list[EffectLine]:
        return await _read(engine, _sinks(source), job or "", (left_behind, limit))

    lines = session.call(work)
    session.answer([_document(line) for line in lines], lambda console: _show(console, lines))


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

    from headrace.cli.tables import plain_table, state

    table = plain_table("effect", "sink", "guarantee", "operation", "fence", "refused", "applied", "item", "")
    for line in lines:
        effect, note = line.effect, "left behind" if line.left_behind else ""
        counts = (str(effect.fence), f"{effect.refused:,}", moment(effect.applied_at))
        place = (escape(effect.key), escape(line.sink), line.guarantee, effect.operation)
        table.add_row(*place, *counts, state(line.state), note)
    console.print(table)
