"""Schedules as the store keeps them, from what authors write."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from headrace.core.errors import CallerError, InvalidFlow, InvalidPayload
from headrace.core.schedules import Misfire, Overlap, Schedule, check_schedule, moment_text
from headrace.runtime.flow import Flow
from headrace.runtime.schedule_declarations import EveryDeclaration, ScheduleOptions, check_words
from headrace.runtime.submission import root_of
from headrace.runtime.timetable import Timetable, timetable_text


def declared_schedules(flow: Flow) -> list[Schedule]:
    """The schedules of a flow whose stages are all declared, each checked against its stage."""
    found: dict[str, Schedule] = {}
    for declaration in flow.declarations:
        stage = root_of(flow, _stage_of(flow, declaration))
        options = declaration.options
        name = options.get("name", flow.name)
        if name in found:
            raise InvalidFlow(f"flow {flow.name!r} has two schedules called {name!r}", "give one of them name=…")
        codec = flow.stages[stage].codec
        payload = codec.encode(options["payload"]) if "payload" in options else None
        if payload is None:
            _check_moment(flow, stage)
        found[name] = made_schedule(name, flow.name, declaration.timetable, options, (stage, payload))
    return list(found.values())


def made_schedule(
    name: str, flow: str, when: str | timedelta, options: ScheduleOptions, item: tuple[str, bytes | None]
) -> Schedule:
    """A schedule of this item: its stage (empty: the flow's only root) and its encoded payload."""
    check_words(flow, options)
    stage, payload = item
    timetable, tz = timetable_text(when), options.get("tz", "UTC")
    moments = Timetable(timetable, tz)
    schedule = Schedule(
        name=name,
        flow=flow,
        timetable=timetable,
        tz=tz,
        payload=payload,
        stage=stage,
        misfire=Misfire(options.get("misfire", Misfire.ONCE)),
        overlap=Overlap(options.get("overlap", Overlap.ALLOW)),
        jitter_s=float(options.get("jitter_s", 0.0)),
        tenant=options.get("tenant", "default"),
    )
    check_schedule(schedule)
    if schedule.jitter_s and schedule.jitter_s * 1_000 >= moments.gap_ms_min():
        # A fire that comes after the next moment could not be told from one that was missed.
        raise CallerError(
            f"jitter_s={schedule.jitter_s:g} of schedule {name!r} is as long as the time between two of its moments",
            f"make it shorter than {moments.gap_ms_min() / 1_000:g} s",
        )
    return schedule


def _stage_of(flow: Flow, declaration: EveryDeclaration) -> str | None:
    if declaration.handler is None:
        return None
    for stage in flow.stages.values():
        if stage.handler is declaration.handler:
            return stage.name
    name = getattr(declaration.handler, "__name__", declaration.handler)
    raise InvalidFlow(f"flow {flow.name!r}: every() decorates {name!r}, which is not a stage", "add @flow.stage below")


def _check_moment(flow: Flow, stage: str) -> None:
    try:
        flow.stages[stage].codec.check(msgspec.msgpack.encode(moment_text(0)), 1)
    except InvalidPayload as error:
        raise InvalidFlow(
            f"flow {flow.name!r}: a schedule without payload=… gives the moment to {error}",
            f"say payload=…, or let {stage} take a datetime",
        ) from None
