"""Named calendars: days that several schedules leave out, and what a change of them does."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from scheduler_cron import cron_of
from scheduler_world import World
from test_scheduler_tenant_api import CRON, KEYS, Gate, gate_of

from headrace_scheduler.cron.calendars import Calendars
from headrace_scheduler.tenants.tenant_queue import DEFAULT_TENANT

HOURLY = "0 * * * *"
NAME = "vn-holidays"


def today(world: World) -> datetime:
    return datetime.combine(world.clock().date(), datetime.min.time(), UTC)


async def test_a_changed_calendar_counts_from_the_next_moment_on(world: World) -> None:
    calendars, cron = Calendars(world.tables, DEFAULT_TENANT), cron_of(world)
    midnight = today(world) + timedelta(days=1)
    world.clock.move(seconds=(midnight - world.clock()).total_seconds() - 1)
    day = midnight.date().isoformat()
    await calendars.put(NAME, [day], "test")
    left_out = await cron.add(HOURLY, calendars=(NAME,))
    plain = await cron.add(HOURLY)
    world.clock.move(hours=1, seconds=5)
    await cron.fire_all()
    assert (len(await cron.jobs(left_out)), len(await cron.jobs(plain))) == (0, 1)
    await calendars.put(NAME, ["1999-12-25"], "test")
    world.clock.move(hours=1)
    await cron.fire_all()
    # What was left out is decided, and is not made up for.
    assert (len(await cron.jobs(left_out)), len(await cron.jobs(plain))) == (1, 2)
    await calendars.put(NAME, [day], "test")
    world.clock.move(hours=1)
    await cron.fire_all()
    assert (len(await cron.jobs(left_out)), len(await cron.jobs(plain))) == (1, 3)


@pytest.fixture
async def gate(embedded_environment: dict[str, str]) -> Any:
    async with gate_of(embedded_environment) as found:
        yield found


async def test_a_calendar_is_set_shown_listed_and_removed(gate: Gate) -> None:
    days = {"days_out": ["2026-02-17", "09-02", "SUN"]}
    made = await gate.ask("acme", "PUT", f"/calendars/{NAME}", json=days)
    assert (made.status_code, made.json()["days_out"]) == (200, days["days_out"])
    assert (await gate.ask("acme", "GET", f"/calendars/{NAME}")).json() == made.json()
    assert (await gate.ask("acme", "GET", "/calendars")).json() == {"calendars": [made.json()]}
    where = await gate.make("acme", {**CRON, "calendars": [NAME]})
    assert (await gate.ask("acme", "GET", where)).json()["calendars"] == [NAME]
    assert (await gate.ask("acme", "DELETE", f"/calendars/{NAME}")).status_code == 409
    assert (await gate.ask("acme", "DELETE", where)).status_code == 204
    assert (await gate.ask("acme", "DELETE", f"/calendars/{NAME}")).status_code == 204
    assert (await gate.ask("acme", "GET", f"/calendars/{NAME}")).status_code == 404


async def test_calendars_of_others_are_not_there(gate: Gate) -> None:
    assert (await gate.ask("acme", "PUT", f"/calendars/{NAME}", json={"days_out": ["SUN"]})).status_code == 200
    for method in ("GET", "DELETE"):
        assert (await gate.ask("blue", method, f"/calendars/{NAME}")).status_code == 404
    assert (await gate.ask("blue", "GET", "/calendars")).json() == {"calendars": []}
    refused = await gate.ask("blue", "POST", "/jobs", json={**CRON, "calendars": [NAME]})
    assert (refused.status_code, NAME in refused.text) == (422, True)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        (NAME, {"days_out": ["Christmas"]}),
        (NAME, {"days_out": "SAT"}),
        (NAME, {}),
        ("Not%20a%20name", {"days_out": ["SAT"]}),
    ],
)
async def test_a_wrong_calendar_is_refused(name: str, body: dict[str, Any], gate: Gate) -> None:
    assert (await gate.ask("acme", "PUT", f"/calendars/{name}", json=body)).status_code == 422
    assert (await gate.ask("acme", "GET", "/calendars")).json() == {"calendars": []}


async def test_a_schedule_whose_calendar_leaves_out_every_day_is_refused(gate: Gate) -> None:
    await gate.ask("acme", "PUT", "/calendars/never", json={"days_out": ["SAT"]})
    body = {**CRON, "schedule": "0 9 * * SAT", "calendars": ["never"]}
    refused = await gate.ask("acme", "POST", "/jobs", json=body)
    assert (refused.status_code, "never fires" in refused.text) == (422, True)


async def test_a_change_that_would_silence_a_schedule_is_refused(gate: Gate) -> None:
    every_day, url = {"days_out": ["MON", "TUE", "WED", "THU", "FRI", "SAT"]}, f"/calendars/{NAME}"
    for name in (NAME, "sundays"):
        assert (await gate.ask("acme", "PUT", f"/calendars/{name}", json={"days_out": ["SUN"]})).status_code == 200
    where = await gate.make("acme", {**CRON, "calendars": [NAME, "sundays"]})
    refused = await gate.ask("acme", "PUT", url, json=every_day)
    assert (refused.status_code, "would never fire again" in refused.text) == (409, True)
    assert (await gate.ask("acme", "GET", url)).json()["days_out"] == ["SUN"]
    assert (await gate.ask("blue", "PUT", url, json=every_day)).status_code == 200, "a calendar of its own"
    assert (await gate.ask("acme", "POST", f"{where}/pause")).status_code == 200
    assert (await gate.ask("acme", "PUT", url, json=every_day)).status_code == 200


def test_calendars_and_the_audit_have_commands(headrace_command: Any, embedded_environment: dict[str, str]) -> None:
    def ran(*words: str) -> Any:
        done = headrace_command("--json", "scheduler", *words, **embedded_environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert ran("calendars", "put", NAME, "2026-02-17", "SUN", "--tenant", "acme")["days_out"] == ["2026-02-17", "SUN"]
    assert ran("calendars", "show", NAME, "--tenant", "acme")["name"] == NAME
    assert ran("calendars", "list")["calendars"] == []
    assert ran("calendars", "remove", NAME, "--tenant", "acme")["status"] == "removed"
    whole = ran("audit", "list", "--tenant", "acme")
    told = whole["events"]
    assert whole["is_all"]
    cut = ran("audit", "list", "--tenant", "acme", "--limit", "1")
    assert (len(cut["events"]), cut["is_all"]) == (1, False)
    assert [(each["action"], each["subject"]) for each in told] == [("calendar.put", NAME), ("calendar.remove", NAME)]
    assert ran("audit", "list", "--tenant", "blue")["events"] == []


async def test_the_audit_is_read_page_by_page_and_by_tenant(gate: Gate) -> None:
    for number in range(7):
        await gate.make("acme" if number % 2 else "blue")
    await gate.client.get("/jobs")
    seen, cursor = [], ""
    while cursor is not None:
        page = (await gate.ask("acme", "GET", "/audit", params={"limit": 2, "cursor": cursor})).json()
        seen += page["events"]
        cursor = page["next"]
    assert [(each["actor"], each["action"], each["detail"]) for each in seen] == [
        ("acme", "POST /jobs", "status=201")
    ] * 3
    everything = (await gate.ask("", "GET", "/audit")).json()["events"]
    assert [each["detail"] for each in everything] == ["status=201"] * 7 + ["status=401"]


async def test_the_audit_is_not_for_keys_that_only_read(embedded_environment: dict[str, str]) -> None:
    async with gate_of({**embedded_environment}, scope="read") as gate:
        assert (await gate.client.get("/audit", headers={"X-API-Key": KEYS["acme"]})).status_code == 403
        assert (await gate.client.get("/jobs", headers={"X-API-Key": KEYS["acme"]})).status_code == 200
