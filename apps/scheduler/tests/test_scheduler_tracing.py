"""The way of a job from its request to its end: spans of one trace, and log lines with one correlation id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from scheduler_world import World, open_world
from waiting import eventually

from headrace.http import Options, application
from headrace.services import log_to_stderr
from headrace_scheduler.frame import FRAME
from headrace_scheduler.observe.spans import context_of, correlation_of, step, traceparent
from headrace_scheduler.observe.traced_source import TracedSource
from headrace_scheduler.service import SchedulerService

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACE = f"00-{TRACE_ID}-{SPAN_ID}-01"
SECRET = "hunter2-of-the-payload"
ALLOWED = "http://127.0.0.1:1/"


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    """A process has one provider, for good."""
    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    trace.set_tracer_provider(provider)
    yield found
    provider.shutdown()


@pytest.fixture
def recorded(exporter: InMemorySpanExporter) -> InMemorySpanExporter:
    exporter.clear()
    return exporter


@asynccontextmanager
async def served(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """`all` in this process: requests by the client, jobs by its worker."""
    stop, service = asyncio.Event(), SchedulerService("all", world.parts)
    running = asyncio.ensure_future(service.run(stop))
    transport = httpx.ASGITransport(application(Options("all"), service.routes()))
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client
    finally:
        stop.set()
        await asyncio.wait_for(running, 30)


async def run_job(world: World, client: httpx.AsyncClient, payload: dict[str, Any], status: str) -> str:
    made = await client.post("/jobs", json={"payload": payload}, headers={"traceparent": TRACE})
    assert made.status_code == 201, made.text
    job_id: str = made.json()["job_id"]

    async def over() -> bool:
        return await world.status(UUID(job_id)) == status

    await eventually(over, status, 60)
    return job_id


def spans_of(recorded: InMemorySpanExporter, job_id: str) -> dict[str, ReadableSpan]:
    spans = recorded.get_finished_spans()
    found = {span.name: span for span in spans if (span.attributes or {}).get("scheduler.job_id") == job_id}
    return found | {span.name: span for span in spans if span.name == "request"}


async def test_the_spans_of_a_job_are_one_trace_from_the_request_to_the_release(
    embedded: World, recorded: InMemorySpanExporter
) -> None:
    async with served(embedded) as client:
        job_id = await run_job(embedded, client, {"type": "sleep", "seconds": 0.01}, "completed")
        await eventually(lambda: "release" in spans_of(recorded, job_id), "the last span")
    spans = spans_of(recorded, job_id)
    assert set(spans) == {"request", "enqueue", "acquire", "run", "release"}
    request, enqueue = spans["request"], spans["enqueue"]
    parents = {name: span.parent.span_id for name, span in spans.items() if span.parent is not None}
    assert request.context is not None
    assert enqueue.context is not None
    follows = dict.fromkeys(("acquire", "run", "release"), enqueue.context.span_id)
    # What the request's is a child of is for the web framework to say, which may have a span too.
    assert parents.pop("request")
    assert parents == {"enqueue": request.context.span_id, **follows}
    assert {trace.format_trace_id(span.context.trace_id) for span in spans.values() if span.context} == {TRACE_ID}
    fences = {(spans[name].attributes or {})["scheduler.fencing_token"] for name in follows}
    assert len(fences) == 1


async def test_a_run_that_fails_is_an_error_without_its_text(embedded: World, recorded: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match=SECRET), step("run", TRACE, job_id="1"):
        raise ValueError(SECRET)
    (span,) = recorded.get_finished_spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError")
    assert SECRET not in span.to_json()


async def test_the_log_lines_of_a_job_have_one_correlation_id_and_nothing_of_its_payload(
    embedded_environment: dict[str, str], recorded: InMemorySpanExporter, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr()
    given = {"type": "http", "url": f"http://127.0.0.1:9/{SECRET}", "headers": {"Authorization": SECRET}}
    once = {"WORKER_HTTP_ALLOW": ALLOWED, "WORKER_MAX_ATTEMPTS": "1"}
    said: list[str] = []

    def told() -> bool:
        said.extend(capsys.readouterr().err.splitlines())
        return any("event=run.ended" in line and "state=done" in line for line in said)

    async with open_world(FRAME.load({**embedded_environment, **once})) as embedded, served(embedded) as client:
        unusable = {**given, "url": f"{ALLOWED}\x01{SECRET}", "body": {"password": SECRET}}
        await run_job(embedded, client, unusable, "dlq")
        failed = await run_job(embedded, client, {**given, "url": f"{ALLOWED}{SECRET}"}, "dlq")
        await run_job(embedded, client, {"type": "sleep", "seconds": 0.01}, "completed")
        await eventually(told, "the last line")
        letter = await embedded.tables.dead.find(UUID(failed))
    for event in ("job.created", "run.began", "run.ended", "item.dead"):
        lines = [line for line in said if f"event={event} " in line]
        assert lines, event
        assert all(f"correlation_id={TRACE_ID}" in line for line in lines), lines
    assert any("event=run.ended" in line and "error_class=invalid_url" in line for line in said)
    # The traceback of the failed call is there without the text of its error, which names the URL; its letter has all.
    assert any("event=item.dead" in line and "reason=RunFailed" in line for line in said)
    assert any("http_call.py" in line and "in run" in line for line in said)
    assert not any("httpcore" in line for line in said), "where a library noticed that nobody answers helps nobody"
    assert letter is not None
    assert SECRET in f"{letter.last_error} {letter.stack}"
    assert SECRET not in "\n".join(said)
    assert SECRET not in "".join(span.to_json() for span in recorded.get_finished_spans())


async def test_a_run_that_is_given_back_has_a_line_for_its_end(
    embedded: World, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr()
    job = await embedded.create()
    held = await embedded.hold(job.job_id, "one")
    assert held is not None
    assert await TracedSource(embedded.source).give_back(held)
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "event=run.ended " in each]
    assert f"job={job.job_id} fence={held.fence} state=given_back" in line


def test_a_job_without_a_trace_is_known_by_its_own_id() -> None:
    job_id = UUID(int=7)
    assert correlation_of(None, job_id) == str(job_id)
    assert correlation_of("order-7", job_id) == "order-7"
    assert correlation_of(TRACE, job_id) == TRACE_ID
    assert context_of("not one") == context_of(None) == {}


def test_without_an_sdk_the_given_trace_is_passed_on() -> None:
    assert traceparent(trace.INVALID_SPAN, TRACE) == TRACE


def test_a_correlation_id_that_is_no_trace_stays_the_callers(recorded: InMemorySpanExporter) -> None:
    with step("enqueue", "order-7") as span:
        assert traceparent(span, "order-7") == "order-7"
        assert traceparent(span, None) not in (None, "")
