"""Several API keys: scopes, rates, and an audit of what changes."""

from __future__ import annotations

from typing import Any

import pytest
from http_sample import KEY, Sample
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from headrace.core.errors import CallerError, Unreachable
from headrace.http import Access, AuditedRequest, KeyScope, Options, access_of
from headrace.http.access import Auditor, RateLimiter
from headrace.http.problems import Problem

THING = {"name": "cup"}
KEYS = {scope: scope[0] * 32 for scope in KeyScope}
WRITTEN = ",".join(f"{scope}-client:{scope}:{key}" for scope, key in KEYS.items())


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    ("scope", "metrics", "read", "write"),
    [(KeyScope.METRICS, 200, 403, 403), (KeyScope.READ, 200, 200, 403), (KeyScope.WRITE, 200, 200, 201)],
)
async def test_a_key_may_do_what_its_scope_says(
    scope: KeyScope, metrics: int, read: int, write: int, sample: Sample
) -> None:
    async with sample.client(access=access_of(WRITTEN)) as client:
        headers = bearer(KEYS[scope])
        assert (await client.get("/metrics", headers=headers)).status_code == metrics
        assert (await client.get("/things", headers=headers)).status_code == read
        answer = await client.post("/things", json=THING, headers=headers)
        assert answer.status_code == write
        assert (await client.get("/things")).status_code == 401
        assert (await client.get("/readyz", headers=headers)).status_code == 200
    assert len(sample.made) == (write == 201)
    assert write == 201 or (answer.json()["type"].endswith("scope") and scope in answer.text)


async def test_the_service_s_own_key_may_do_everything(sample: Sample) -> None:
    async with sample.client(api_keys={"own": KEY}, access=access_of(WRITTEN)) as client:
        assert (await client.post("/things", json=THING, headers=bearer(KEY))).status_code == 201


@pytest.mark.parametrize(
    "text", ["secret-word", "a:read", f"a:admin:{KEY}", f"a@:read:{KEY}", f":read:{KEY}", f"a:read:{KEY},a:write:{KEY}"]
)
def test_keys_that_cannot_be_read_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(CallerError) as refused:
        access_of(text)
    assert KEY not in str(refused.value)
    assert "secret-word" not in str(refused.value)


def test_a_further_key_is_held_to_the_same_rules() -> None:
    with pytest.raises(CallerError, match="32 or more"):
        Options("sample", access=access_of("a:read:short"))
    with pytest.raises(CallerError, match="two API keys of the name 'a'"):
        Options("sample", api_keys={"a": KEY}, access=access_of(f"a:read:{KEY}"))
    assert KEY not in repr(Options("sample", access=access_of(f"a:read:{KEY}")))
    assert Options("sample", host="0.0.0.0", access=access_of(f"a:read:{KEY}")).host == "0.0.0.0"


async def test_a_key_that_asks_too_often_is_told_when_to_come_again(sample: Sample) -> None:
    access = access_of(WRITTEN, Access(rate_per_s=0.001))
    async with sample.client(access=access) as client:
        first, second = [await client.get("/things", headers=bearer(KEYS[KeyScope.READ])) for _ in range(2)]
        assert (first.status_code, second.status_code) == (200, 429)
        assert 900 < int(second.headers["retry-after"]) <= 1_000
        assert "rate_per_s" in second.text
        # Another key has its own, and whoever looks after the process has none.
        assert (await client.get("/things", headers=bearer(KEYS[KeyScope.WRITE]))).status_code == 200
        assert [(await client.get("/healthz")).status_code for _ in range(3)] == [200, 200, 200]


async def test_without_keys_there_is_no_rate(sample: Sample) -> None:
    async with sample.client(access=Access(rate_per_s=0.001)) as client:
        assert [(await client.get("/things")).status_code for _ in range(3)] == [200, 200, 200]


async def test_a_rate_allows_a_second_s_worth_at_once_and_fills_again() -> None:
    passed, now = [0], [0.0]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        passed[0] += 1

    limiter = RateLimiter(app, Access(rate_per_s=4.0), lambda: now[0])

    async def ask(count: int) -> int:
        before = passed[0]
        for _ in range(count):
            try:
                await limiter({"type": "http", "state": {"actor": "a"}}, None, None)  # type: ignore[arg-type]
            except Problem:
                break
        return passed[0] - before

    assert await ask(10) == 4
    now[0] = 0.5
    assert await ask(10) == 2
    now[0] = 100.0
    assert await ask(10) == 4


async def test_a_change_with_a_key_is_audited(sample: Sample) -> None:
    told: list[AuditedRequest] = []

    async def audit(request: AuditedRequest) -> None:
        told.append(request)

    async with sample.client(access=access_of(WRITTEN, Access(audit=audit))) as client:
        headers = bearer(KEYS[KeyScope.WRITE])
        await client.get("/things", headers=headers)
        await client.post("/things", json=THING, headers=headers)
        await client.post("/things", json={"name": ""}, headers=headers)
    assert told == [
        AuditedRequest("write-client", "POST", "/things", "/things", 201, location=f"/things/{sample.made[0]}"),
        AuditedRequest("write-client", "POST", "/things", "/things", 422),
    ]


async def test_an_audit_that_fails_takes_nothing_back(sample: Sample) -> None:
    async def audit(request: AuditedRequest) -> None:
        raise Unreachable("away")

    async with sample.client(access=access_of(WRITTEN, Access(audit=audit))) as client:
        answer = await client.post("/things", json=THING, headers=bearer(KEYS[KeyScope.WRITE]))
    assert (answer.status_code, len(sample.made)) == (201, 1)


def recorded(told: list[AuditedRequest], **more: Any) -> Access:
    async def audit(request: AuditedRequest) -> None:
        told.append(request)

    return Access(audit=audit, **more)


async def test_a_refusal_is_audited_with_what_is_known_of_its_key(sample: Sample) -> None:
    told: list[AuditedRequest] = []
    async with sample.client(access=access_of(WRITTEN, recorded(told, rate_per_s=0.001))) as client:
        await client.get("/things")
        await client.post("/things", json=THING, headers=bearer(KEYS[KeyScope.READ]))
        await client.get("/things", headers=bearer(KEYS[KeyScope.WRITE]))
        await client.get("/things", headers=bearer(KEYS[KeyScope.WRITE]))
    assert [(each.actor, each.method, each.status) for each in told] == [
        ("", "GET", 401),
        ("read-client", "POST", 403),
        ("write-client", "GET", 429),
    ]


async def test_refusals_cannot_fill_the_audit() -> None:
    told: list[AuditedRequest] = []
    now = [0.0]

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 401})

    async def nothing(message: Message) -> None:
        """Nobody reads the answer."""

    auditor = Auditor(refuse, recorded(told).audit, lambda: now[0])

    async def ask(count: int) -> None:
        for _ in range(count):
            route = Route("/things", lambda request: None)
            await auditor({"type": "http", "method": "GET", "path": "/things", "route": route}, None, nothing)  # type: ignore[arg-type]

    await ask(100)
    assert len(told) == 60
    now[0] = 1.0
    await ask(2)
    assert (len(told), told[-1].left_out) == (61, 40)


TENANTS = f"a@acme:write:{'1' * 32},b@acme:write:{'2' * 32},c@blue:write:{'3' * 32},ops:write:{'4' * 32}"


async def test_keys_of_a_tenant_share_its_repeats_and_its_rate(sample: Sample) -> None:
    key = {"Idempotency-Key": "one"}
    async with sample.client(access=access_of(TENANTS, Access(by_tenant=True))) as client:
        for number in "1234":
            await client.post("/things", json=THING, headers={**bearer(number * 32), **key})
        for tenant in ("acme", "blue", "blue"):
            await client.post("/things", json=THING, headers={**bearer("4" * 32), **key, "Tenant": tenant})
    # One of acme, one of blue, and one of the operator's for itself and for each tenant that it named.
    assert len(sample.made) == 5
    rates = Access(by_tenant=True, tenant_rates={"acme": 0.001, "*": 0.002})
    async with sample.client(access=access_of(TENANTS, rates)) as client:
        asked = [await client.get("/things", headers=bearer(number * 32)) for number in "12344"]
        assert [answer.status_code for answer in asked] == [200, 429, 200, 200, 200]
        assert "acme" in asked[1].text


async def test_a_tenant_s_key_names_no_other_tenant(sample: Sample) -> None:
    async with sample.client(access=access_of(TENANTS, Access(by_tenant=True))) as client:
        for tenant, status in {"blue": 403, "acme": 200}.items():
            answer = await client.get("/things", headers={**bearer("1" * 32), "Tenant": tenant})
            assert answer.status_code == status
