"""What authors write: `flow.every(…)` and its options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict

from headrace.core.errors import CallerError, InvalidFlow
from headrace.core.schedules import Misfire, Overlap
from headrace.runtime.timetable import Timetable, timetable_text


class ScheduleOptions(TypedDict, total=False):
    """How a flow is submitted by the clock.

    `tz`: the time zone of the cron expression. `misfire`: what becomes of moments at which no worker ran: `skip` them,
    fire the newest `once`, or `all` of them. `jitter_s`: a fire is later than its moment by up to this. `overlap`:
    `allow` a fire while the job of the one before is open, or `skip` it. `payload`: the item; without one it is the
    moment, as text. `tenant`: whose jobs.
    """

    tz: str
    misfire: Literal["skip", "once", "all"]
    jitter_s: float
    overlap: Literal["allow", "skip"]
    payload: Any
    tenant: str


class EveryOptions(ScheduleOptions, total=False):
    """The same for a flow that declares it. `name`: of the schedule; the flow's own if it is left out."""

    name: str


@dataclass(frozen=True, slots=True)
class EveryDeclaration:
    """One `flow.every(…)`; `handler` is the function that it decorates."""

    timetable: str
    options: EveryOptions
    handler: Callable[..., Any] | None = None


def read_every(flow: str, when: str | timedelta, options: EveryOptions) -> EveryDeclaration:
    """What an author wrote, or `InvalidFlow` with what is wrong about it."""
    check_words(flow, options)
    try:
        text = timetable_text(when)
        Timetable(text, options.get("tz", "UTC"))
    except CallerError as error:
        raise InvalidFlow(f"flow {flow!r}: {error}", error.hint) from None
    return EveryDeclaration(text, options)


def check_words(flow: str, options: ScheduleOptions) -> None:
    """Refuse an option that nobody reads and a word that means nothing."""
    unknown = sorted(set(options) - set(EveryOptions.__annotations__))
    if unknown:
        known = ", ".join(EveryOptions.__annotations__)
        raise InvalidFlow(f"flow {flow!r}: every() has no option {unknown[0]!r}", f"the options are: {known}")
    words: tuple[tuple[str, str, list[str]], ...] = (
        ("misfire", options.get("misfire", Misfire.ONCE), [*Misfire]),
        ("overlap", options.get("overlap", Overlap.ALLOW), [*Overlap]),
    )
    for option, value, known_words in words:
        if value not in known_words:
            raise InvalidFlow(f"flow {flow!r}: {option}={value!r} is none of {', '.join(known_words)}")
