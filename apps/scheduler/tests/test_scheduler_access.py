"""API keys of the scheduler: what each may do, and what is written down of it."""

from __future__ import annotations

from uuid import uuid4

import httpx
import pytest
from scheduler_world import open_world

from headrace.http import Options, application
from headrace_scheduler.frame import FRAME
from headrace_scheduler.service import SchedulerService
from headrace_scheduler.tables.audit_events import AuditEvents

JOB = {"schedule": "now", "payload": {}}
READ, WRITE = "r" * 32, "w" * 32


async def test_a_key_is_bound_by_its_scope_and_its_changes_are_audited(environment: dict[str, str]) -> None:
    name, reader = f"ops-{uuid4()}", f"dashboard-{uuid4()}"
    keys = {"WORKER_API_KEYS": f"{reader}:read:{READ},{name}:write:{WRITE}"}
    async with open_world(FRAME.load({**environment, **keys})) as world:
        service = SchedulerService("api", world.parts)
        app = application(Options("scheduler", access=service.access), service.routes())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            assert (await client.get("/jobs")).status_code == 401
            assert (await client.post("/jobs", json=JOB, headers={"X-API-Key": READ})).status_code == 403
            made = await client.post("/jobs", json=JOB, headers={"X-API-Key": WRITE})
            where = made.headers["location"]
            assert (await client.get(where, headers={"X-API-Key": READ})).status_code == 200
            assert (await client.post(f"{where}/cancel", headers={"X-API-Key": WRITE})).status_code == 202
        day = world.clock().date().isoformat()
        told = [event for event in await AuditEvents(world.recorded).of_day(day) if event.actor in (name, reader, "")]
        assert [(event.actor, event.action, event.subject, event.detail, event.tenant) for event in told[-4:]] == [
            ("", "GET /jobs", "/jobs", "status=401", ""),
            (reader, "POST /jobs", "/jobs", "status=403", ""),
            (name, "POST /jobs", where, "status=201", "default"),
            (name, "POST /jobs/{job_id}/cancel", f"{where}/cancel", "status=202", ""),
        ]


async def test_without_keys_nothing_is_asked_and_nothing_is_bounded(embedded_environment: dict[str, str]) -> None:
    async with open_world(FRAME.load({**embedded_environment, "WORKER_RATE_PER_S": "1"})) as world:
        access = SchedulerService("api", world.parts).access
        assert (access.api_keys, access.rate_per_s, access.tenant_rates, access.audit) == ({}, None, {}, None)


@pytest.mark.parametrize(
    ("service", "allowed", "refused"), [("all", "", True), ("api", "", False), ("api", "x", True), ("all", "ok", False)]
)
async def test_what_no_worker_would_do_is_refused_where_that_is_known(
    service: str, allowed: str, refused: bool, embedded_environment: dict[str, str]
) -> None:
    """The worker of `all` has the same lists; an `api` without lists knows nothing of those of the workers."""
    lists = {"x": ("http://x/", "/bin/x"), "ok": ("http://shop/", "/bin/tea"), "": ("", "")}[allowed]
    names = ("WORKER_HTTP_ALLOW", "WORKER_COMMAND_ALLOW")
    async with open_world(FRAME.load({**embedded_environment, **dict(zip(names, lists, strict=True))})) as world:
        app = application(Options("scheduler"), SchedulerService(service, world.parts).routes())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            bodies = (
                ({"payload": {"type": "http", "url": "http://shop/tea?key=s3cret"}}, names[0]),
                ({"payload": {"type": "command", "argv": ["/bin/tea"]}}, names[1]),
                ({"callback_url": "http://shop/told?key=s3cret"}, names[0]),
            )
            for body, name in bodies:
                for schedule in ("now", "0 9 * * *"):
                    answer = await client.post("/jobs", json={"schedule": schedule, **body})
                    assert answer.status_code == (422 if refused else 201), answer.text
                    assert (name in answer.text, "s3cret" in answer.text) == (refused, False)
                    assert ("callback_url" in answer.text) == (refused and "callback_url" in body)
        assert len(await world.rows()) == (0 if refused else 3)


async def test_who_reads_tokens_over_http_can_do_nothing_with_them(embedded_environment: dict[str, str]) -> None:
    """`last_run` shows one, as the contract says. A lock is let go only by who writes the tables."""
    async with open_world(FRAME.load(embedded_environment)) as world:
        app = application(Options("scheduler"), SchedulerService("all", world.parts).routes())
        paths = app.openapi()["paths"]
        assert "/api/v1/jobs/{job_id}" in paths
        assert not [path for path in paths if "lock" in path]


async def test_a_key_has_so_many_requests_a_second(embedded_environment: dict[str, str]) -> None:
    keys = {"WORKER_API_KEYS": f"one:read:{READ},other:read:{WRITE}", "WORKER_RATE_PER_S": "0.001"}
    async with open_world(FRAME.load({**embedded_environment, **keys})) as world:
        service = SchedulerService("api", world.parts)
        app = application(Options("scheduler", access=service.access), service.routes())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            asked = [await client.get("/dlq", headers={"X-API-Key": key}) for key in (READ, READ, WRITE)]
    assert [answer.status_code for answer in asked] == [200, 429, 200]
