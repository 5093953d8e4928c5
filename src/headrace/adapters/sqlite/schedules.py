"""Schedules: a moment's row and its job are one transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from headrace.adapters.sqlite import submissions
from headrace.adapters.sqlite.store_transactions import Transactions
from headrace.adapters.sqlite.transaction import Row, Transaction
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

DUE_MAX = 100
WORKERS_KEPT_S = 86_400.0


class SqliteSchedules:
    """`ports.schedules.Schedules` on one file."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def declare(self, worker: str, flows: Sequence[str], declared: Sequence[Schedule]) -> None:
        for schedule in declared:
            check_schedule(schedule)
        await self._transactions.write(lambda tx: _declare(tx, worker, flows, declared))

    async def add(self, schedule: Schedule, replace: bool = False) -> None:
        check_schedule(schedule)
        await self._transactions.write(lambda tx: _add(tx, schedule, replace))

    async def remove(self, name: str) -> bool:
        return await self._transactions.write(lambda tx: _remove(tx, name))

    async def set_paused(self, name: str, paused: bool) -> bool:
        def work(tx: Transaction) -> bool:
            _state(tx, name)
            if paused:
                return bool(tx.value("schedule_pause", name=name))
            return bool(tx.value("schedule_resume", name=name, now_ms=_now_ms(tx)))

        return await self._transactions.write(work)

    async def run(self, name: str, moment_ms: int) -> bool:
        def work(tx: Transaction) -> bool:
            _state(tx, name)
            return bool(tx.value("schedule_ask", name=name, moment_ms=moment_ms))

        return await self._transactions.write(work)

    async def due(self, flows: Sequence[str]) -> Due:
        return await self._transactions.read(lambda tx: _due(tx, json.dumps(list(flows))))

    async def fire(self, firing: Firing) -> list[FireView]:
        return await self._transactions.write(lambda tx: fire(tx, firing))

    async def look(self, name: str | None = None) -> list[ScheduleView]:
        return await self._transactions.read(lambda tx: _look(tx, name))


def _now_ms(tx: Transaction) -> int:
    return int(tx.wall() * 1_000)


def _declare(tx: Transaction, worker: str, flows: Sequence[str], declared: Sequence[Schedule]) -> None:
    tx.run("schedule_workers_forget", before=tx.wall() - WORKERS_KEPT_S)
    for flow in flows:
        tx.run("schedule_worker_insert", worker=worker, flow=flow, now=tx.wall())
    for schedule in declared:
        if _insert(tx, schedule, Origin.DECLARED):
            continue
        _update(tx, redeclared(_state(tx, schedule.name), schedule, _now_ms(tx)))
    names = json.dumps([schedule.name for schedule in declared])
    tx.run("schedules_undeclare", flows=json.dumps(list(flows)), names=names)


def _add(tx: Transaction, schedule: Schedule, replace: bool) -> None:
    if _insert(tx, schedule, Origin.ADDED):
        return
    stored = _state(tx, schedule.name)
    if replace:
        _update(tx, replaced(stored, schedule, _now_ms(tx)))
    else:
        same_schedule(stored, schedule)


def _update(tx: Transaction, changed: ScheduleState | None) -> None:
    if changed is not None:
        values = {"origin": changed.origin, "revision": changed.revision, "handled_ms": changed.handled_ms}
        tx.run("schedule_update", **asdict(changed.schedule), **values)


def _insert(tx: Transaction, schedule: Schedule, origin: Origin) -> bool:
    return bool(tx.value("schedule_insert", **asdict(schedule), origin=origin, now_ms=_now_ms(tx)))


def _remove(tx: Transaction, name: str) -> bool:
    if tx.one("schedule_row", name=name) is None:
        return False
    attended = tx.value("schedule_attended", name=name, boot=tx.boot, now=tx.now())
    check_removal(_state(tx, name), bool(attended))
    tx.run("fires_delete", name=name)
    return tx.run("schedule_delete", name=name) > 0


def _state(tx: Transaction, name: str) -> ScheduleState:
    row = tx.one("schedule_row", name=name)
    if row is None:
        raise NotFound(f"there is no schedule {name!r}", "headrace schedules list")
    origin, paused, revision, handled_ms = row[10:]
    return ScheduleState(_schedule(row), Origin(origin), bool(paused), revision, handled_ms)


def _due(tx: Transaction, flows: str) -> Due:
    now_ms = _now_ms(tx)
    found = tx.all("schedules_due", flows=flows, now_ms=now_ms, ahead_ms=AHEAD_MS, count_max=DUE_MAX)
    next_ms = tx.value("schedules_next", flows=flows)
    due = tuple(DueSchedule(_schedule(row), row[10], row[11], row[12], bool(row[13])) for row in found)
    return Due(now_ms, due, None if next_ms is None else max(0.0, (next_ms - now_ms) / 1_000))


def fire(tx: Transaction, firing: Firing) -> list[FireView]:
    moments = json.dumps([each.moment_ms for each in firing.fires])
    seen = {"name": firing.name, "revision": firing.revision, "seen_ms": firing.seen_ms, "moments": moments}
    advanced = {"handled_ms": firing.handled_ms, "due_ms": firing.due_ms, "missed": firing.missed}
    row = tx.one("schedule_advance", **seen, **advanced)
    if row is not None:
        overlap, last_job = Overlap(row[0]), str(row[1])
        for each in firing.fires:
            last_job = _fire_one(tx, firing.name, each, (overlap, last_job))
    return [_fire_view(found) for found in tx.all("fires_of", schedule=firing.name, moments=moments)]


def _fire_one(tx: Transaction, schedule: str, fire: Fire, before: tuple[Overlap, str]) -> str:
    """Fire one moment unless it has its row; the job that the next one may have to wait for."""
    overlap, last_job = before
    place = {"schedule": schedule, "moment_ms": fire.moment_ms}
    if tx.one("fire_known", **place) is not None:
        return last_job
    outcome = judge_fire(fire, overlap, bool(tx.value("job_is_open", job=last_job)))
    job, reason = "", fire.reason
    if outcome is FireOutcome.FIRED and fire.submission is not None:
        try:
            job = last_job = submissions.submit(tx, fire.submission).job
            tx.run("schedule_last_job", name=schedule, job=job)
        except Conflict as error:
            outcome, reason = FireOutcome.REFUSED, str(error)
    tx.run("fire_insert", outcome=outcome, job=job, reason=reason, manual=fire.manual, now=tx.wall(), **place)
    tx.run("fires_prune", schedule=schedule, before_ms=fire.moment_ms - FIRES_KEPT_MS)
    return last_job


def _look(tx: Transaction, name: str | None) -> list[ScheduleView]:
    views = []
    for row in tx.all("schedule_list", name=name, boot=tx.boot, now=tx.now()):
        origin, paused, attended, handled_ms, asked_ms, missed = row[10:]
        fires = tx.all("fires_newest", schedule=row[0], count_max=FIRES_SHOWN)
        flags = Origin(origin), bool(paused), bool(attended)
        shown = tuple(_fire_view(found) for found in fires)
        views.append(ScheduleView(_schedule(row), *flags, handled_ms, _now_ms(tx), asked_ms, missed, shown))
    return views


def _schedule(row: Row) -> Schedule:
    name, flow, timetable, tz, payload, stage, misfire, overlap, jitter_s, tenant = row[:10]
    return Schedule(name, flow, timetable, tz, payload, stage, Misfire(misfire), Overlap(overlap), jitter_s, tenant)


def _fire_view(row: Row) -> FireView:
    moment_ms, outcome, job, reason, manual, fired_at = row
    return FireView(moment_ms, FireOutcome(outcome), job, reason, bool(manual), fired_at)
