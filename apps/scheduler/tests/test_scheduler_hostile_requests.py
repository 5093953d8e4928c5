"""Requests that are wrong, too many or about somebody else's: the answer tells the caller its own mistake, and nothing
of others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from test_scheduler_tenant_api import JOB, Gate, die, gate_of

from headrace.errors import CallerError
from headrace.http import Options, application, encode_cursor
from headrace_scheduler.api.access import access_of
from headrace_scheduler.frame import FRAME
from headrace_scheduler.service import SchedulerService
from headrace_scheduler.tables.audit_events import AuditEvents

JSON = {"Content-Type": "application/json"}
LATER_S = 6.0


@pytest.fixture
async def gate(embedded_environment: dict[str, str]) -> AsyncIterator[Gate]:
    async with gate_of(embedded_environment) as found:
        yield found


async def dead_job(gate: Gate, tenant: str) -> str:
    where = await gate.make(tenant)
    await die(gate, where)
    return where.rpartition("/")[2]


async def test_a_refusal_by_the_limit_is_not_kept_for_the_repeat(embedded_environment: dict[str, str]) -> None:
    """It says to come again, and whoever does so by its key is the same job then."""
    async with gate_of(embedded_environment, WORKER_TENANT_LIMITS="acme:open=1") as gate:
        where, key = await gate.make("acme"), {"Idempotency-Key": "once"}
        asked = [await gate.ask("acme", "POST", "/jobs", json=JOB, headers=key)]
        assert (await gate.ask("acme", "POST", f"{where}/cancel")).status_code == 202
        gate.world.clock.move(seconds=LATER_S)
        asked += [await gate.ask("acme", "POST", "/jobs", json=JOB, headers=key) for _ in range(2)]
    assert [answer.status_code for answer in asked] == [429, 201, 201]
    assert asked[1].content == asked[2].content


async def test_dead_jobs_that_run_again_are_held_to_the_limit(embedded_environment: dict[str, str]) -> None:
    async with gate_of(embedded_environment, WORKER_TENANT_LIMITS="acme:open=1") as gate:
        dead = []
        for _ in range(2):
            dead.append(await dead_job(gate, "acme"))
            gate.world.clock.move(seconds=LATER_S)
        asked = [await gate.ask("acme", "POST", f"/dlq/{job_id}/redrive") for job_id in dead]
        assert [answer.status_code for answer in asked] == [202, 429]
        assert "open" in asked[1].text
        assert await gate.world.tables.dead.find(UUID(dead[1])) is not None, "it is dead as before"


async def test_of_a_dead_job_of_others_not_even_that_it_is_there_is_told(gate: Gate) -> None:
    theirs, nobodys = await dead_job(gate, "blue"), str(uuid4())
    alive = (await gate.make("blue")).rpartition("/")[2]
    told = []
    for job_id in (theirs, nobodys, alive):
        answer = await gate.ask("acme", "POST", f"/dlq/{job_id}/redrive")
        told.append((answer.status_code, answer.text.replace(job_id, "ID")))
    assert told == [told[0]] * 3
    assert told[0][0] == 404


async def test_what_the_whole_process_counts_is_not_for_a_tenant(embedded_environment: dict[str, str]) -> None:
    """Its series are the sums of all tenants."""
    async with gate_of(embedded_environment) as gate:
        service = SchedulerService("api", gate.world.parts)
        app = application(Options("scheduler", access=service.access, registry=service.registry), service.routes())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            gate.client = client
            asked = [await gate.ask(tenant, "GET", "/metrics") for tenant in ("acme", "default", "")]
    assert [answer.status_code for answer in asked] == [403, 403, 200]
    assert ["jobs_processed_total" in answer.text for answer in asked] == [False, False, True]


def test_a_key_that_could_read_nothing_is_refused(embedded_environment: dict[str, str]) -> None:
    settings = FRAME.load({**embedded_environment, "WORKER_API_KEYS": f"a@acme:metrics:{'k' * 32}"})
    with pytest.raises(CallerError, match="metrics"):
        access_of(settings, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/dlq", ("nonsense",)),
        ("/dlq", (7,)),
        ("/audit", (1, "nonsense")),
        ("/audit", (10**30, "6f6b1f5e-4b0c-5c0e-9a8e-0d9f2c7d1b11")),
        ("/audit", (10**17, "6f6b1f5e-4b0c-5c0e-9a8e-0d9f2c7d1b11")),
        ("/jobs", (10**30,)),
        ("/jobs", (10**18,)),
        ("/jobs", (-(10**15),)),
    ],
)
async def test_a_cursor_of_nothing_is_refused(path: str, values: tuple[Any, ...], gate: Gate) -> None:
    answer = await gate.ask("", "GET", path, params={"cursor": encode_cursor(*values)})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:headrace:problem:bad-cursor")


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
@pytest.mark.parametrize("name", ["since", "before"])
async def test_a_time_that_utc_has_not_is_refused_by_its_name(name: str, moment: str, gate: Gate) -> None:
    answer = await gate.ask("", "GET", "/jobs", params={name: moment})
    assert (answer.status_code, name in answer.json()["detail"]) == (422, True)


@pytest.mark.parametrize("schedule", ["now", "0 9 * * *"])
@pytest.mark.parametrize("value", [r'"\ud800"', "NaN", "-Infinity", "1e999"])
async def test_a_payload_that_is_no_json_for_others_is_refused(value: str, schedule: str, gate: Gate) -> None:
    """Programs in other languages read it in the tables."""
    body = f'{{"schedule": "{schedule}", "payload": {{"a": [{value}]}}}}'.encode()
    answer = await gate.ask("acme", "POST", "/jobs", content=body, headers=JSON)
    assert (answer.status_code, "payload" in answer.json()["detail"]) == (422, True), answer.text
    assert await gate.world.rows() == []


async def test_a_type_that_is_none_is_not_repeated(gate: Gate) -> None:
    for kind in ({"password": "s3cret" * 1_000}, ["s3cret"], "s3cret " * 1_000):
        answer = await gate.ask("acme", "POST", "/jobs", json={"payload": {"type": kind}})
        assert (answer.status_code, "payload.type" in answer.text) == (422, True)
        assert "s3cret" not in answer.text


async def test_what_is_written_down_of_a_request_is_bounded_and_its_tenant_s(gate: Gate) -> None:
    await gate.ask("", "POST", "/jobs", json=JOB, headers={"Tenant": "y" * 5_000})
    await gate.ask("acme", "GET", "/jobs", headers={"Tenant": "blue"})
    day = gate.world.clock().date().isoformat()
    events = {event.actor: event for event in await AuditEvents(gate.world.recorded).of_day(day)}
    assert len(events["ops"].tenant) <= 200
    assert (events["acme"].tenant, events["acme"].detail) == (f"acme{gate.suffix}", "status=403")
