"""Schedules: when a flow is submitted by itself, and what becomes of each moment.

A moment is a point of the timetable, in milliseconds since the epoch. It follows from the schedule alone, never from
the clock of whoever fires, so two workers that fire at once, a repeat, and a worker whose clock is wrong all speak of
the same one. Everything up to `handled_ms` has been dealt with. A clock that was set back makes this lie ahead; then it
is moved back too, and what has fired meanwhile is known by its row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from enum import StrEnum

from headrace.core.errors import CallerError, Conflict
from headrace.core.graph import NAME_CHARS_MAX
from headrace.core.jobs import Submission
from headrace.core.parcels import KEY_CHARS_MAX, Encoded, check_item, check_keys

LATE_S = 60.0
"""A fire that is late by less is on time: a worker that is restarted takes about that long."""

CATCH_UP_MAX = 100
"""With `misfire="all"`, so many of the newest moments are made up for; a month of minutes would bury the queue."""

JITTER_S_MAX = 3_600.0
FIRES_KEPT_MS = 30 * 86_400_000
FIRES_SHOWN = 5
AHEAD_MS = 1_000
"""What is handled may lie this far ahead of the store's clock before that counts as a clock that was set back."""


class Misfire(StrEnum):
    """What becomes of moments at which no worker ran."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class Overlap(StrEnum):
    """What becomes of a moment while the job of the fire before is open."""

    ALLOW = "allow"
    SKIP = "skip"


class Origin(StrEnum):
    """Where a schedule comes from: added by an operator, declared by a flow, or declared once and not any more."""

    ADDED = "added"
    DECLARED = "declared"
    UNDECLARED = "undeclared"


class FireOutcome(StrEnum):
    """A job was submitted; or the job before was still open; or there was nothing that could be submitted."""

    FIRED = "fired"
    OVERLAPPED = "overlapped"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is submitted when. `timetable` is a cron expression of five fields in the time zone `tz`, or an ISO 8601
    duration such as PT5M. Without a `payload` the item is the moment itself, as text."""

    name: str
    flow: str
    timetable: str
    tz: str = "UTC"
    payload: bytes | None = None
    stage: str = ""
    misfire: Misfire = Misfire.ONCE
    overlap: Overlap = Overlap.ALLOW
    jitter_s: float = 0.0
    tenant: str = "default"


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """A schedule as it stands. `revision` rises with every change that a worker must see before it fires."""

    schedule: Schedule
    origin: Origin
    paused: bool
    revision: int
    handled_ms: int


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule that wants to be looked at. `asked_ms` is the moment of a fire that an operator asked for; without
    `running`, it is paused or not declared any more, and only that one is fired."""

    schedule: Schedule
    revision: int
    handled_ms: int
    asked_ms: int | None
    running: bool


@dataclass(frozen=True, slots=True)
class Due:
    """What is due by the store's clock, which says `now_ms`; nothing else will be before `wait_s`."""

    now_ms: int
    schedules: tuple[DueSchedule, ...] = ()
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class Fire:
    """One moment and the job it submits; without one, `reason` says why there is none."""

    moment_ms: int
    submission: Submission | None
    manual: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Firing:
    """Fires of one schedule and how far it is handled with them, decided on what was seen: `revision` and `seen_ms`.

    `due_ms` is when it wants to be looked at next. `missed` moments are passed over.
    """

    name: str
    revision: int
    seen_ms: int
    handled_ms: int
    due_ms: int
    fires: tuple[Fire, ...] = ()
    missed: int = 0


@dataclass(frozen=True, slots=True)
class FireView:
    """One fire as people see it."""

    moment_ms: int
    outcome: FireOutcome
    job: str
    reason: str
    manual: bool
    fired_at: float


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as people see it. `attended`: a running worker has its flow. `fires`: the newest, newest first."""

    schedule: Schedule
    origin: Origin
    paused: bool
    attended: bool
    handled_ms: int
    now_ms: int
    asked_ms: int | None
    missed: int
    fires: tuple[FireView, ...] = ()

    @property
    def state(self) -> str:
        """In one word, the strongest reason for not firing first."""
        if self.origin is Origin.UNDECLARED:
            return "undeclared"
        if self.paused:
            return "paused"
        return "active" if self.attended else "no worker"


def check_schedule(schedule: Schedule) -> None:
    """Refuse what no store would take."""
    name = schedule.name
    if not name or len(name) > NAME_CHARS_MAX or not name.isprintable() or "/" in name or "@" in name:
        raise CallerError(f"schedule name {name!r} must have 1 to {NAME_CHARS_MAX} characters, no slash and no @")
    if not schedule.flow:
        raise CallerError(f"schedule {name!r} names no flow")
    # A job could not be submitted under them: every worker would end at the first fire.
    check_keys((schedule.flow, schedule.stage, schedule.tenant))
    if not 1 <= len(schedule.tenant) <= KEY_CHARS_MAX:
        raise CallerError(f"the tenant of schedule {name!r} must have 1 to {KEY_CHARS_MAX} characters")
    # The same limit as for every other item; a fire that is too large for its store would be tried for ever.
    check_item(Encoded(schedule.payload or b""))
    if not 0 <= schedule.jitter_s <= JITTER_S_MAX:
        raise CallerError(f"jitter_s={schedule.jitter_s} of schedule {name!r} is not 0 to {JITTER_S_MAX:g}")


def jitter_ms(schedule: Schedule, moment_ms: int) -> int:
    """How much later than its moment a fire is: drawn from the name and the moment, so that a repeat draws the same."""
    drawn = hashlib.sha256(fire_key(schedule.name, moment_ms).encode()).digest()
    return int(schedule.jitter_s * 1_000 * int.from_bytes(drawn[:6], "big") / 2**48)


def fire_key(name: str, moment_ms: int) -> str:
    """The idempotency key of a fire's job."""
    return f"{name}@{moment_text(moment_ms)}"


def moment_text(moment_ms: int, zone: tzinfo | None = None) -> str:
    """A moment in RFC 3339, in this time zone or else in UTC."""
    seconds, rest = divmod(moment_ms, 1_000)
    at = datetime.fromtimestamp(seconds, zone or UTC).replace(microsecond=rest * 1_000)
    return at.isoformat(timespec="milliseconds" if rest else "seconds")


def due_moments(schedule: Schedule, moments: Sequence[int], now_ms: int) -> Sequence[int]:
    """Those of the moments, oldest first, whose time has come, jitter included; one that has come brings all before."""
    for count in range(len(moments), 0, -1):
        if moments[count - 1] + jitter_ms(schedule, moments[count - 1]) <= now_ms:
            return moments[:count]
    return ()


def chosen_moments(schedule: Schedule, due: Sequence[int], now_ms: int) -> Sequence[int]:
    """Those of the due moments, oldest first, that fire; the others are missed."""
    match schedule.misfire:
        case Misfire.ONCE:
            return due[-1:]
        case Misfire.ALL:
            return due[-CATCH_UP_MAX:]
        case Misfire.SKIP:
            on_time_ms = now_ms - int((LATE_S + schedule.jitter_s) * 1_000)
            return [moment for moment in due if moment >= on_time_ms][-CATCH_UP_MAX:]


def judge_fire(fire: Fire, overlap: Overlap, busy: bool) -> FireOutcome:
    """What becomes of one moment. `busy`: the job of the fire before is open. An operator's fire does not wait."""
    if fire.submission is None:
        return FireOutcome.REFUSED
    if busy and overlap is Overlap.SKIP and not fire.manual:
        return FireOutcome.OVERLAPPED
    return FireOutcome.FIRED


def redeclared(stored: ScheduleState, schedule: Schedule, now_ms: int) -> ScheduleState | None:
    """A stored schedule after a flow has declared it; None: nothing changes. A timetable that is new counts from now:
    what it would have had before was never promised."""
    if stored.origin is not Origin.UNDECLARED and stored.schedule.flow != schedule.flow:
        raise Conflict(
            f"flow {schedule.flow!r} declares the schedule {schedule.name!r}, which is one of flow "
            f"{stored.schedule.flow!r}",
            f"give one of them name=…; if that flow is gone for good: headrace schedules remove {schedule.name}",
        )
    if stored.origin is Origin.DECLARED and stored.schedule == schedule:
        return None
    return replace(_changed(stored, schedule, now_ms), origin=Origin.DECLARED)


def replaced(stored: ScheduleState, schedule: Schedule, now_ms: int) -> ScheduleState | None:
    """A schedule that was added, after it was added anew; None: nothing changes."""
    if stored.origin is not Origin.ADDED or stored.schedule.flow != schedule.flow:
        same_schedule(stored, schedule)
    return None if stored.schedule == schedule else _changed(stored, schedule, now_ms)


def _changed(stored: ScheduleState, schedule: Schedule, now_ms: int) -> ScheduleState:
    before = stored.schedule
    anew = (before.timetable, before.tz) != (schedule.timetable, schedule.tz) or stored.origin is Origin.UNDECLARED
    handled_ms = now_ms if anew else stored.handled_ms
    return replace(stored, schedule=schedule, revision=stored.revision + 1, handled_ms=handled_ms)


def same_schedule(stored: ScheduleState, schedule: Schedule) -> None:
    """What is added again is the same; something else under its name is refused."""
    if stored.schedule != schedule:
        raise Conflict(
            f"there is another schedule {schedule.name!r} (flow {stored.schedule.flow!r}, {stored.schedule.timetable})",
            f"headrace schedules remove {schedule.name}",
        )


def check_removal(stored: ScheduleState, attended: bool) -> None:
    """A schedule whose declaration is still running would come back."""
    if stored.origin is Origin.DECLARED and attended:
        raise Conflict(
            f"schedule {stored.schedule.name!r} is declared by flow {stored.schedule.flow!r}, which a worker runs",
            f"headrace schedules pause {stored.schedule.name}, or take away the declaration",
        )
