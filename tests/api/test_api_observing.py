"""Alive, ready, counted, described."""

from __future__ import annotations

import asyncio

from api_sample import Sample
from prometheus_client import CollectorRegistry

from headrace.api import Limits
from headrace.core.errors import Unreachable


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
