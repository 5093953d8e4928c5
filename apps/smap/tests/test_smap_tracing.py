"""A trace begins with the request for a project and goes with every event of it, through all four services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import httpx
import pytest
from collector_running import environment_of
from prometheus_client import CollectorRegistry
from smap_office import EXAMPLE
from waiting import eventually

from headrace.consuming import Delivery, Event, Subscription, trace_of
from headrace.http import Options, application, read_traceparent
from headrace.services import log_to_stderr
from headrace_smap.envelope import ANALYSIS_FINISHED, DATA_COLLECTED, JOB_COMPLETED, PROJECT_CREATED
from headrace_smap.frame import FRAME, NAMES, service_of
from headrace_smap.insight.service import InsightService
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.settings import SmapSettings

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RETRY = "00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203332-01"
EAR = "ear"
TOPICS = (PROJECT_CREATED, DATA_COLLECTED, ANALYSIS_FINISHED, JOB_COMPLETED)
ORDER = {**EXAMPLE, "date_range": ["2025-01-01", "2025-01-01"]}


class Services:
    """All four in one loop; `client` asks the project service."""

    def __init__(self, parts: SmapParts, client: httpx.AsyncClient) -> None:
        self.parts, self.client = parts, client
        self.heard: list[Event] = []

    async def listen(self) -> list[Event]:
        received = await self.parts.bus.receive(EAR, "test", 1_000, 30.0)
        await self.parts.bus.ack(received.deliveries)
        self.heard += [each.event for each in received.deliveries]
        return self.heard

    def traces(self, topic: str) -> set[str]:
        return {trace_of(event) for event in self.heard if event.topic == topic}


@asynccontextmanager
async def all_services(settings: SmapSettings) -> AsyncIterator[Services]:
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(open_parts(settings))
        await parts.bus.subscribe(Subscription(EAR, TOPICS))
        services = [service_of(name, replace(parts, registry=CollectorRegistry())) for name in NAMES]
        for service in services:
            await service.prepare()
        running = [asyncio.ensure_future(service.run(stop)) for service in services]
        app = application(Options("project"), services[0].routes())
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
        try:
            yield Services(parts, await stack.enter_async_context(client))
        finally:
            stop.set()
            await asyncio.wait_for(asyncio.gather(*running), 60)


async def test_every_event_and_its_log_lines_name_the_trace_of_the_request(
    embedded: SmapSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    crawlers = "*=simulated:posts=12&broken=0.5"
    given = environment_of(embedded, SMAP_CRAWLERS=crawlers, SMAP_ANALYSTS="0", SMAP_MODULES="nothing")
    async with all_services(FRAME.load(given)) as services:
        log_to_stderr()
        made = await services.client.post("/projects", json=ORDER, headers={"traceparent": TRACE})
        project = made.json()["id"]

        async def done() -> bool:
            return any(event.topic == JOB_COMPLETED for event in await services.listen())

        await eventually(done, "the project is announced", 60)
        assert {topic: services.traces(topic) for topic in TOPICS} == {topic: {TRACE} for topic in TOPICS}
        said: list[str] = []

        def names() -> bool:
            said.extend(capsys.readouterr().err.splitlines())
            return any("completion.received" in line for line in said)

        await eventually(names, "insight has heard of it")
        for event in ("project.created", "order.taken", "project.finished", "completion.received"):
            assert any(f"event={event} " in line and TRACE in line for line in said), (event, said)
        services.heard.clear()
        again = await services.client.post(f"/projects/{project}/retry", headers={"traceparent": RETRY})
        assert again.json()["retried"] > 0

        async def retried() -> bool:
            return len(await services.listen()) >= again.json()["retried"]

        await eventually(retried, "failed posts are told again")
        assert services.traces(DATA_COLLECTED) == {RETRY}


async def test_a_project_of_a_foreign_service_has_a_trace_from_the_collector_on(embedded: SmapSettings) -> None:
    given = environment_of(embedded, SMAP_CRAWLERS="*=simulated:posts=3", SMAP_ANALYSTS="0", SMAP_MODULES="nothing")
    async with all_services(FRAME.load(given)) as services:
        body = b'{"payload": {"project_id": "theirs", "keywords": ["x"], "targets": [{"platform": "tiktok"}]}}'
        await services.parts.bus.publish([Event("theirs-1", PROJECT_CREATED, body)])

        async def done() -> bool:
            return any(event.topic == JOB_COMPLETED for event in await services.listen())

        await eventually(done, "the project is announced", 60)
        (trace,) = services.traces(DATA_COLLECTED)
        assert read_traceparent(trace) == trace != ""
        assert services.traces(ANALYSIS_FINISHED) == services.traces(JOB_COMPLETED) == {trace}


async def test_ends_that_come_together_name_their_own_traces(
    embedded: SmapSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_parts(embedded) as parts:
        log_to_stderr()
        ends = [
            Delivery("smap.notification", 1, 1, Event(trace, JOB_COMPLETED, body, headers={"traceparent": trace}))
            for trace, body in ((TRACE, b'{"project_id": "a"}'), (RETRY, b'{"project_id": "b"}'))
        ]
        await InsightService(parts).notifier.handle(ends)
    said = [line for line in capsys.readouterr().err.splitlines() if "completion.received" in line]
    for line, project, trace in zip(said, "ab", (TRACE, RETRY), strict=True):
        assert f"project={project} " in f"{line} "
        assert trace in line
