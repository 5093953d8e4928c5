"""API keys of the scheduler: what each may do, and what is written down of it."""

from __future__ import annotations

from uuid import uuid4

import httpx
from scheduler_world import open_world

from headrace.http import Options, application
from headrace_scheduler.frame import FRAME
from headrace_scheduler.service import SchedulerService
from headrace_scheduler.tables.audit_events import AuditEvents

JOB = {"schedule": "now", "payload": {}}
READ, WRITE = "r" * 32, "w" * 32


async def test_a_key_is_bound_by_its_scope_and_its_changes_are_audited(environment: dict[str, str]) -> None:
    name = f"ops-{uuid4()}"
    keys = {"WORKER_API_KEYS": f"dashboard:read:{READ},{name}:write:{WRITE}"}
    async with open_world(FRAME.load({**environment, **keys})) as world:
        service = SchedulerService("api", world.parts)
        assert service.access is not None
        app = application(Options("scheduler", access=service.access), service.routes())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            assert (await client.get("/jobs")).status_code == 401
            assert (await client.post("/jobs", json=JOB, headers={"X-API-Key": READ})).status_code == 403
            made = await client.post("/jobs", json=JOB, headers={"X-API-Key": WRITE})
            where = made.headers["location"]
            assert (await client.get(where, headers={"X-API-Key": READ})).status_code == 200
            assert (await client.post(f"{where}/cancel", headers={"X-API-Key": WRITE})).status_code == 202
        day = world.clock().date().isoformat()
        told = [row[1:] for row in await AuditEvents(world.recorded).of_day(day) if row[1] == name]
        assert told == [(name, "POST /jobs/{job_id}/cancel", f"{where}/cancel", "status=202")]


async def test_without_keys_nothing_is_asked_and_nothing_is_bounded(embedded_environment: dict[str, str]) -> None:
    async with open_world(FRAME.load({**embedded_environment, "WORKER_RATE_PER_S": "1"})) as world:
        assert SchedulerService("api", world.parts).access is None
