"""What a tenant sees of the REST interface: its own, and nothing of anybody else's; and what it may have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID, uuid4

import httpx
import pytest
from scheduler_world import World, open_world

from headrace.errors import CallerError
from headrace.http import Options, application
from headrace_scheduler.frame import FRAME
from headrace_scheduler.jobs.values import DeadJob, JobStatus
from headrace_scheduler.service import SchedulerService

JOB = {"schedule": "now", "payload": {"type": "sleep", "seconds": 0}}
CRON = {"schedule": "0 9 * * *", "payload": {}}
KEYS = {name: number * 32 for name, number in {"acme": "1", "blue": "2", "default": "3", "": "4"}.items()}


@dataclass
class Gate:
    """The REST interface with keys: one of each tenant, and an operator's."""

    world: World
    client: httpx.AsyncClient
    suffix: str

    async def ask(self, tenant: str, method: str, path: str, **more: object) -> httpx.Response:
        headers = {"X-API-Key": KEYS[tenant], **(more.pop("headers", None) or {})}
        return await self.client.request(method, path, headers=headers, **more)

    async def make(self, tenant: str, body: dict[str, object] = JOB) -> str:
        made = await self.ask(tenant, "POST", "/jobs", json=body)
        assert made.status_code == 201, made.text
        return made.headers["location"]


@asynccontextmanager
async def gate_of(environment: dict[str, str], scope: str = "write", **more: str) -> AsyncIterator[Gate]:
    """Queues outlive a test, so tenants have names that no other test uses."""
    suffix = f"-{uuid4()}"
    names = {name: f"{name}{suffix}" if name in ("acme", "blue") else name for name in KEYS}
    keys = ",".join(f"{name or 'ops'}{'@' if name else ''}{names[name]}:{scope}:{key}" for name, key in KEYS.items())
    limits = {name: value.replace("acme", names["acme"]) for name, value in more.items()}
    async with open_world(FRAME.load({**environment, "WORKER_API_KEYS": keys, **limits})) as world:
        service = SchedulerService("api", world.parts)
        app = application(
            Options("scheduler", access=service.access, idempotency=world.parts.request_keys), service.routes()
        )
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            yield Gate(world, client, suffix)


@pytest.fixture
async def gate(environment: dict[str, str]) -> AsyncIterator[Gate]:
    async with gate_of(environment) as found:
        yield found


async def die(gate: Gate, where: str) -> None:
    """A job's last run has failed."""
    world, job_id = gate.world, UUID(where.rpartition("/")[2])
    job = await world.tables.jobs.find(job_id)
    assert job is not None
    (candidate,) = [each for each in await world.candidates() if each.key == str(job_id)]
    await world.tables.pending.remove(candidate.row)
    await world.tables.dead.add(DeadJob(job_id, 5, "why", world.clock(), job.payload))
    await world.tables.jobs.write_status(job, JobStatus.DLQ, 5)


async def test_on_every_route_what_is_another_s_is_not_there(gate: Gate) -> None:
    job, schedule = await gate.make("acme"), await gate.make("acme", CRON)
    dead = await gate.make("acme")
    await die(gate, dead)
    ids = {"job_id": job.rpartition("/")[2], "schedule_id": schedule.rpartition("/")[2]}
    service = SchedulerService("api", gate.world.parts)
    asked = 0
    for route in (route for router in service.routes() for route in router.routes):
        path, methods = route.path, route.methods  # type: ignore[attr-defined]
        if "{job_id}" not in path and "{schedule_id}" not in path:
            continue
        named = {**ids, "job_id": dead.rpartition("/")[2]} if path.startswith("/dlq") else ids
        for method in methods:
            for stranger in ("blue", "default"):
                answer = await gate.ask(stranger, method, path.format(**named))
                assert answer.status_code == 404, (method, path, stranger)
                asked += 1
    assert asked == 2 * (4 + 2 + 1 + 4)
    assert (await gate.ask("acme", "GET", job)).json()["status"] == "pending"
    assert (await gate.ask("acme", "GET", schedule)).json()["status"] == "active"
    assert (await gate.ask("", "GET", job)).json()["tenant"] == f"acme{gate.suffix}"
    assert (await gate.ask("acme", "POST", f"/dlq/{dead.rpartition('/')[2]}/redrive")).status_code == 202


async def test_lists_hold_a_tenant_s_own(gate: Gate) -> None:
    made = {tenant: await gate.make(tenant) for tenant in ("acme", "blue", "default")}
    crons = {tenant: await gate.make(tenant, CRON) for tenant in ("acme", "blue", "default")}
    for where in made.values():
        await die(gate, where)
    for tenant in made:
        for path, name, word, mine in (
            ("/jobs", "jobs", "job_id", made),
            ("/dlq", "jobs", "job_id", made),
            ("/schedules", "schedules", "schedule_id", crons),
        ):
            listed = {each[word] for each in (await gate.ask(tenant, "GET", path)).json()[name]}
            known = {where.rpartition("/")[2]: whose for whose, where in mine.items()}
            assert {known[each] for each in listed if each in known} == {tenant}, (tenant, path)
    of_all = {each["job_id"] for each in (await gate.ask("", "GET", "/jobs?limit=200")).json()["jobs"]}
    assert {where.rpartition("/")[2] for where in made.values()} <= of_all
    one = (await gate.ask("", "GET", "/jobs", headers={"Tenant": f"blue{gate.suffix}"})).json()["jobs"]
    assert [each["job_id"] for each in one] == [made["blue"].rpartition("/")[2]]


async def test_pages_of_dead_jobs_pass_over_those_of_others(embedded_environment: dict[str, str]) -> None:
    async with gate_of(embedded_environment) as gate:
        mine = []
        for number in range(9):
            where = await gate.make("acme" if number % 3 == 0 else "blue")
            await die(gate, where)
            mine += [where.rpartition("/")[2]] if number % 3 == 0 else []
        seen, cursor = [], ""
        while cursor is not None:
            page = (await gate.ask("acme", "GET", "/dlq", params={"limit": 2, "cursor": cursor})).json()
            seen += [each["job_id"] for each in page["jobs"]]
            cursor = page["next"]
        assert sorted(seen) == sorted(mine)


async def test_a_foreign_row_is_the_default_tenant_s(gate: Gate) -> None:
    job_id = await gate.world.insert_foreign(1, gate.world.clock())
    assert await gate.world.hold(job_id) is not None
    assert (await gate.ask("default", "GET", f"/jobs/{job_id}")).status_code == 200
    assert (await gate.ask("acme", "GET", f"/jobs/{job_id}")).status_code == 404
    assert (await gate.ask("acme", "POST", f"/jobs/{job_id}/cancel")).status_code == 404


async def test_a_dead_row_of_another_program_is_redriven_by_the_default_tenant_only(gate: Gate) -> None:
    job_id = uuid4()
    await gate.world.tables.dead.add(DeadJob(job_id, 5, "why", gate.world.clock(), "{}"))
    assert (await gate.ask("acme", "POST", f"/dlq/{job_id}/redrive")).status_code == 404
    assert await gate.world.tables.jobs.find(job_id) is None
    assert (await gate.ask("default", "POST", f"/dlq/{job_id}/redrive")).status_code == 202


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
async def test_a_priority_is_taken_and_shown(priority: str, gate: Gate) -> None:
    where = await gate.make("acme", {**JOB, "priority": priority})
    assert (await gate.ask("acme", "GET", where)).json()["priority"] == priority
    cron = await gate.make("acme", {**CRON, "priority": priority})
    shown = (await gate.ask("acme", "GET", cron)).json()
    assert (shown["priority"], shown["tenant"]) == (priority, f"acme{gate.suffix}")


async def test_one_job_too_many_is_refused_and_room_comes_back(environment: dict[str, str]) -> None:
    async with gate_of(environment, WORKER_TENANT_LIMITS="acme:open=3:schedules=1") as gate:
        wheres = [await gate.make("acme", {**JOB, "priority": word}) for word in ("high", "normal", "low")]
        refused = await gate.ask("acme", "POST", "/jobs", json=JOB)
        assert (refused.status_code, refused.json()["type"].endswith("quota")) == (429, True)
        assert "open" in refused.json()["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        await gate.make("blue")
        assert (await gate.ask("acme", "POST", f"{wheres[0]}/cancel")).status_code == 202
        gate.world.clock.move(seconds=1)
        await gate.make("acme")
        await gate.make("acme", CRON)
        assert (await gate.ask("acme", "POST", "/jobs", json=CRON)).status_code == 422


async def test_a_repeat_of_a_job_that_was_made_is_not_one_too_many(embedded_environment: dict[str, str]) -> None:
    async with gate_of(embedded_environment, WORKER_TENANT_LIMITS="acme:open=1") as gate:
        key = {"Idempotency-Key": "once"}
        asked = [await gate.ask("acme", "POST", "/jobs", json=JOB, headers=key) for _ in range(2)]
        assert [answer.status_code for answer in asked] == [201, 201]


async def test_a_tenant_s_rate_is_that_of_all_of_its_keys(embedded_environment: dict[str, str]) -> None:
    async with gate_of(embedded_environment, WORKER_TENANT_LIMITS="acme:rate=0.001") as gate:
        asked = [(await gate.ask(tenant, "GET", "/jobs")).status_code for tenant in ("acme", "acme", "blue", "blue")]
        assert asked == [200, 429, 200, 200]


async def test_a_name_that_is_none_is_refused(embedded_environment: dict[str, str]) -> None:
    async with gate_of(embedded_environment) as gate:
        answer = await gate.ask("", "POST", "/jobs", json=JOB, headers={"Tenant": "Not A Name"})
        assert (answer.status_code, "tenant" in answer.text) == (422, True)


@pytest.mark.parametrize(
    "text", ["acme", "acme:open=x", "acme:open=0", "acme:closed=1", "a:open=1,a:rate=2", "A:open=1"]
)
def test_limits_that_cannot_be_read_are_refused(text: str, embedded_environment: dict[str, str]) -> None:
    with pytest.raises(CallerError):
        FRAME.load({**embedded_environment, "WORKER_TENANT_LIMITS": text})
