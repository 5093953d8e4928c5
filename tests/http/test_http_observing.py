"""Alive, ready, counted, described."""

from __future__ import annotations

import asyncio

import pytest
from http_sample import KEY, Sample
from prometheus_client import CollectorRegistry

from headrace.core.errors import Unreachable
from headrace.http import Limits
from headrace.http.options import Check


async def fine() -> None: ...


async def away() -> None:
    raise Unreachable("postgresql://smap:hunter2@db")


async def hanging() -> None:
    await asyncio.Event().wait()


async def test_ready_is_when_every_part_answers(sample: Sample) -> None:
    async with sample.client(checks={"database": fine, "bus": fine}) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")
    assert {name: check["ok"] for name, check in answer.json()["checks"].items()} == {"database": True, "bus": True}


async def test_the_part_that_is_missing_is_named(sample: Sample) -> None:
    checks = {"database": away, "bus": hanging, "blobs": fine}
    async with sample.client(checks=checks, limits=Limits(check_s_max=0.05)) as client:
        answer = await client.get("/readyz")
        assert (await client.get("/healthz")).status_code == 200
    found = answer.json()["checks"]
    assert (answer.status_code, answer.json()["status"]) == (503, "not ready")
    assert {name: check["ok"] for name, check in found.items()} == {"database": False, "bus": False, "blobs": True}
    assert (found["database"]["error"], found["bus"]["error"]) == ("Unreachable", "TimeoutError")
    assert "hunter2" not in answer.text


async def test_without_what_it_can_do_without_a_service_is_ready_and_degraded(sample: Sample) -> None:
    beside: dict[str, Check] = {"server a": fine}
    async with sample.client(checks={"database": fine}, beside=lambda: beside) as client:
        assert (await client.get("/readyz")).json()["status"] == "ready"
        beside["server b"] = away
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    told = {name: check.get("error") for name, check in answer.json()["beside"].items()}
    assert told == {"server a": None, "server b": "Unreachable"}
    async with sample.client(checks={"database": away}, beside=lambda: beside) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "not ready")


@pytest.mark.parametrize(("check", "status", "word"), [(fine, 200, "alive"), (away, 503, "not alive")])
async def test_a_service_that_cannot_live_without_a_part_is_as_alive_as_that(
    check: Check, status: int, word: str, sample: Sample
) -> None:
    async with sample.client(health={"database": check}) as client:
        answer = await client.get("/healthz")
        assert (answer.status_code, answer.json()["status"]) == (status, word)
        assert (await client.get("/readyz")).status_code == 200


@pytest.mark.parametrize(("check", "status", "word"), [(fine, 200, "ready"), (away, 503, "not ready")])
async def test_without_the_key_ready_is_a_word_and_no_more(
    check: Check, status: int, word: str, sample: Sample
) -> None:
    async with sample.client(api_keys={"acme": KEY}, checks={"database": check}) as client:
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()) == (status, {"status": word})
        assert "database" in (await client.get("/readyz", headers={"X-API-Key": KEY})).json()["checks"]


async def test_requests_are_counted_by_pattern_and_never_by_id(sample: Sample) -> None:
    registry = CollectorRegistry()
    async with sample.client(registry=registry) as client:
        await client.get("/things")
        await client.get("/api/v1/things")
        await client.get("/secret-path")
        await client.request("BREW", "/things")
        text = (await client.get("/metrics")).text

    def count(**labels: str) -> float | None:
        return registry.get_sample_value("headrace_http_requests_total", {"service": "sample", **labels})

    assert count(method="GET", route="/things", status="200") == 2
    assert count(method="GET", route="unmatched", status="404") == 1
    assert "BREW" not in text
    assert "secret-path" not in text
    assert "headrace_http_request_duration_seconds_bucket" in text


async def test_answers_before_the_route_are_counted_by_its_pattern_too(sample: Sample) -> None:
    registry = CollectorRegistry()
    async with sample.client(registry=registry, api_keys={"acme": KEY}) as client:
        for name in ("a", "a", "b"):
            headers = {"X-API-Key": KEY, "Idempotency-Key": "1"}
            await client.post("/api/v1/things", json={"name": name}, headers=headers)
        await client.get("/things/secret")
        await client.head("/things", headers={"X-API-Key": KEY})

    def count(method: str, route: str, status: str) -> float | None:
        labels = {"service": "sample", "method": method, "route": route, "status": status}
        return registry.get_sample_value("headrace_http_requests_total", labels)

    # Made and told again, the key of another request, no key to come in, and a method that is answered by another.
    assert (count("POST", "/things", "201"), count("POST", "/things", "422")) == (2, 1)
    assert (count("GET", "/things/{name}", "401"), count("HEAD", "/things", "200")) == (1, 1)


async def test_services_of_one_process_may_share_a_registry(sample: Sample) -> None:
    registry = CollectorRegistry()
    for _ in range(2):
        async with sample.client(registry=registry) as client:
            assert (await client.get("/things")).status_code == 200
    labels = {"service": "sample", "method": "GET", "route": "/things", "status": "200"}
    assert registry.get_sample_value("headrace_http_requests_total", labels) == 2


async def test_openapi_describes_what_is_under_the_version(sample: Sample) -> None:
    async with sample.client() as client:
        document = (await client.get("/api/v1/openapi.json")).json()
        for path in ("/docs", "/redoc"):
            assert (await client.get(path)).status_code == 404
    assert document["openapi"].startswith("3.1")
    assert {"/api/v1/things", "/api/v1/stream"} <= set(document["paths"])
    assert all(path.startswith("/api/v1/") for path in document["paths"])


async def test_openapi_describes_errors_as_they_are_sent(sample: Sample) -> None:
    async with sample.client() as client:
        document = (await client.get("/api/v1/openapi.json")).json()
        assert (await client.get("/api/v1/openapi.json")).json() == document
        problem = (await client.post("/things", json={"name": ""})).json()
    making, reading = document["paths"]["/api/v1/things"]["post"], document["paths"]["/api/v1/things/{name}"]["get"]
    assert set(making["responses"]) == {"201", "400", "409", "413", "415", "422", "default"}
    assert set(reading["responses"]) == {"200", "400", "404", "422", "default"}
    for answer in (making["responses"]["422"], reading["responses"]["404"]):
        assert answer["content"] == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    assert "HTTPValidationError" not in str(document)
    schema = document["components"]["schemas"]["Problem"]
    assert set(schema["required"]) <= set(problem) <= set(schema["properties"])


async def test_openapi_names_the_idempotency_key_of_every_post(sample: Sample) -> None:
    async with sample.client() as client:
        paths = (await client.get("/api/v1/openapi.json")).json()["paths"]
    keyed = {
        (path, method)
        for path, operations in paths.items()
        for method, operation in operations.items()
        if any(each["name"] == "Idempotency-Key" for each in operation.get("parameters", ()))
    }
    assert keyed == {("/api/v1/things", "post")}
