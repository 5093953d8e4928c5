"""Schedules on PostgreSQL: a moment's row and its job are one transaction, under the lock of the schedule's row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from headrace.adapters.postgres import submissions
from headrace.adapters.postgres.calls import Row, one, rows
from headrace.adapters.postgres.connections import Connection
from headrace.adapters.postgres.lanes import Lanes
from headrace.adapters.postgres.notifications import Notifications
from headrace.adapters.postgres.statements import statements
from headrace.core.errors import Conflict, NotFound
from headrace.core.schedules import (
    AHEAD_MS,
    FIRES_KEPT_MS,
    FIRES_SHOWN,
    Due,
    DueSchedule,
    Fire,
    FireOutcome,
    FireView,
    Firing,
    Misfire,
    Origin,
    Overlap,
    Schedule,
    ScheduleState,
    ScheduleView,
    check_removal,
    check_schedule,
    judge_fire,
    redeclared,
    replaced,
    same_schedule,
)
from headrace.core.texts import storable

DUE_MAX = 100
WORKERS_KEPT_S = 86_400.0


class PostgresSchedules:
    """`ports.schedules.Schedules` in one database."""

    def __init__(self, lanes: Lanes, notifications: Notifications) -> None:
        self._lanes, self._notifications = lanes, notifications

    async def declare(self, worker: str, flows: Sequence[str], declared: Sequence[Schedule]) -> None:
        for schedule in declared:
            check_schedule(schedule)

        def work(connection: Connection) -> None:
            with connection.transaction():
                _declare(connection, worker, flows, declared)

        await self._lanes.write(work)

    async def add(self, schedule: Schedule, replace: bool = False) -> None:
        check_schedule(schedule)

        def work(connection: Connection) -> None:
            with connection.transaction():
                _add(connection, schedule, replace)

        await self._lanes.write(work)

    async def remove(self, name: str) -> bool:
        def work(connection: Connection) -> bool:
            with connection.transaction():
                if not rows(connection, "schedule_locked", (name,)):
                    return False
                stored, _ = _locked(connection, name)
                check_removal(stored, one(connection, "schedule_attended", (stored.schedule.flow,))[0])
                _change(connection, "schedule_delete", {"name": name})
                return True

        return await self._lanes.write(work)

    async def set_paused(self, name: str, paused: bool) -> bool:
        return await self._steer("schedule_pause" if paused else "schedule_resume", name, (name,))

    async def run(self, name: str, moment_ms: int) -> bool:
        return await self._steer("schedule_ask", name, {"name": name, "moment_ms": moment_ms})

    async def due(self, flows: Sequence[str]) -> Due:
        values = {"flows": list(flows), "ahead_ms": AHEAD_MS, "count_max": DUE_MAX}
        clock, *found = await self._lanes.read(lambda connection: rows(connection, "schedules_due", values))
        now_ms, next_ms = clock[11], clock[12]
        due = tuple(DueSchedule(_schedule(row), row[10], row[11], row[12], row[13]) for row in found)
        return Due(now_ms, due, None if next_ms is None else max(0.0, (next_ms - now_ms) / 1_000))

    async def fire(self, firing: Firing) -> list[FireView]:
        def work(connection: Connection) -> tuple[list[FireView], bool]:
            with connection.transaction():
                return fire(connection, firing)

        views, rang = await self._lanes.write(work)
        if rang:
            self._notifications.ring()
        return views

    async def look(self, name: str | None = None) -> list[ScheduleView]:
        values = {"name": name, "count_max": FIRES_SHOWN}

        def work(connection: Connection) -> tuple[list[Row], list[Row]]:
            with connection.transaction():
                connection.execute(statements()["snapshot"].encode())
                return rows(connection, "schedule_list", values), rows(connection, "fires_newest", values)

        listed, fires = await self._lanes.read(work)
        shown: dict[str, tuple[FireView, ...]] = {}
        for name, *fired in fires:
            shown[name] = (*shown.get(name, ()), _fire_view(fired))
        return [_view(row, shown.get(row[0], ())) for row in listed]

    async def _steer(self, verb: str, name: str, values: Sequence[object] | dict[str, object]) -> bool:
        def work(connection: Connection) -> bool:
            with connection.transaction():
                _locked(connection, name)
                return bool(rows(connection, verb, values))

        return await self._lanes.write(work)


def _declare(connection: Connection, worker: str, flows: Sequence[str], declared: Sequence[Schedule]) -> None:
    _change(connection, "schedule_workers_forget", (WORKERS_KEPT_S,))
    _change(connection, "schedule_worker_insert", (worker, list(flows)))
    # Workers that start together lock the rows in the same order.
    for schedule in sorted(declared, key=lambda each: each.name):
        if _insert(connection, schedule, Origin.DECLARED):
            continue
        stored, now_ms = _locked(connection, schedule.name)
        _update(connection, redeclared(stored, schedule, now_ms))
    names = [schedule.name for schedule in declared]
    _change(connection, "schedules_undeclare", (list(flows), names))


def _add(connection: Connection, schedule: Schedule, replace: bool) -> None:
    if _insert(connection, schedule, Origin.ADDED):
        return
    stored, now_ms = _locked(connection, schedule.name)
    if replace:
        _update(connection, replaced(stored, schedule, now_ms))
    else:
        same_schedule(stored, schedule)


def _update(connection: Connection, changed: ScheduleState | None) -> None:
    if changed is not None:
        values = {"origin": changed.origin, "revision": changed.revision, "handled_ms": changed.handled_ms}
        _change(connection, "schedule_update", _values(changed.schedule) | values)


def _change(connection: Connection, name: str, values: Sequence[object] | dict[str, object]) -> None:
    connection.cursor(binary=True).execute(statements()[name].encode(), values)


def _insert(connection: Connection, schedule: Schedule, origin: Origin) -> bool:
    return bool(rows(connection, "schedule_insert", _values(schedule) | {"origin": str(origin)}))


def _values(schedule: Schedule) -> dict[str, object]:
    return {name: str(value) if isinstance(value, str) else value for name, value in asdict(schedule).items()}


def _locked(connection: Connection, name: str) -> tuple[ScheduleState, int]:
    """The schedule under its lock, and the server's time."""
    found = rows(connection, "schedule_locked", (name,))
    if not found:
        raise NotFound(f"there is no schedule {name!r}", "headrace schedules list")
    origin, paused, revision, handled_ms, now_ms = found[0][10:]
    return ScheduleState(_schedule(found[0]), Origin(origin), paused, revision, handled_ms), now_ms


def fire(connection: Connection, firing: Firing) -> tuple[list[FireView], bool]:
    """Apply a firing in the transaction that is open; and whether workers should be woken."""
    moments = [each.moment_ms for each in firing.fires]
    seen = {"name": firing.name, "revision": firing.revision, "seen_ms": firing.seen_ms, "moments": moments}
    advanced = {"handled_ms": firing.handled_ms, "due_ms": firing.due_ms, "missed": firing.missed}
    rang = False
    for overlap, last_job, _ in rows(connection, "schedule_advance", seen | advanced):
        for each in firing.fires:
            last_job, rung = _fire_one(connection, firing.name, each, (Overlap(overlap), last_job))
            rang = rang or rung
    return [_fire_view(row) for row in rows(connection, "fires_of", (firing.name, moments))], rang


def _fire_one(connection: Connection, schedule: str, fire: Fire, before: tuple[Overlap, str]) -> tuple[str, bool]:
    """Fire one moment unless it has its row; the job that the next one may have to wait for."""
    overlap, last_job = before
    if rows(connection, "fire_known", (schedule, fire.moment_ms)):
        return last_job, False
    outcome = judge_fire(fire, overlap, one(connection, "job_is_open", (last_job,))[0])
    job, reason, rang = "", fire.reason, False
    if outcome is FireOutcome.FIRED and fire.submission is not None:
        try:
            submitted, rang = submissions.submit(connection, fire.submission)
            job = last_job = submitted.job
            rows(connection, "schedule_last_job", (job, schedule))
        except Conflict as error:
            outcome, reason = FireOutcome.REFUSED, str(error)
    told = {"outcome": str(outcome), "job": job, "reason": storable(reason), "manual": fire.manual}
    rows(connection, "fire_insert", {"schedule": schedule, "moment_ms": fire.moment_ms} | told)
    rows(connection, "fires_prune", (schedule, fire.moment_ms - FIRES_KEPT_MS))
    return last_job, rang


def _view(row: Row, fires: tuple[FireView, ...]) -> ScheduleView:
    origin, paused, attended, handled_ms, now_ms, asked_ms, missed = row[10:]
    return ScheduleView(_schedule(row), Origin(origin), paused, attended, handled_ms, now_ms, asked_ms, missed, fires)


def _schedule(row: Row) -> Schedule:
    name, flow, timetable, tz, payload, stage, misfire, overlap, jitter_s, tenant = row[:10]
    return Schedule(name, flow, timetable, tz, payload, stage, Misfire(misfire), Overlap(overlap), jitter_s, tenant)


def _fire_view(row: Sequence[object]) -> FireView:
    moment_ms, outcome, job, reason, manual, fired_at = row
    return FireView(moment_ms, FireOutcome(str(outcome)), job, reason, manual, fired_at)  # type: ignore[arg-type]
