"""Streams resume, beat, and end with whoever goes first."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import httpx
import pytest
from http_sample import Sample
from waiting import eventually

from headrace.core.errors import Unreachable
from headrace.http import Limits, Served, StreamEvent, serving


def told(text: str) -> list[dict[str, str]]:
    """The events of a stream as a browser understands them."""
    events = []
    for block in text.split("\n\n"):
        fields: dict[str, str] = {}
        for line in block.splitlines():
            name, _, value = line.partition(": ")
            if name == "data" and "data" in fields:
                value = f"{fields['data']}\n{value}"
            fields[name] = value
        if "data" in fields:
            events.append(fields)
    return events


@pytest.mark.parametrize(("last", "ids"), [(None, ["1", "2", "3"]), ("2", ["3"]), ("3", [])])
async def test_a_stream_goes_on_after_the_last_event_that_was_had(
    last: str | None, ids: list[str], sample: Sample
) -> None:
    headers = {} if last is None else {"Last-Event-ID": last}
    async with sample.client() as client:
        answer = await client.get("/stream", headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.startswith("retry: 2000\n\n")
    assert [event["id"] for event in told(answer.text)] == ids
    assert all(event["event"] == "count" for event in told(answer.text))


async def test_an_event_of_several_lines_arrives_whole(sample: Sample) -> None:
    async with sample.client() as client:
        answer = await client.get("/stream", headers={"Last-Event-ID": "2"})
    assert told(answer.text)[0]["data"] == '{"number":\n3}'


def test_an_event_without_data_is_an_event() -> None:
    assert StreamEvent("", "7").encoded() == b"id: 7\ndata: \n\n"


async def test_a_name_that_is_too_long_is_refused(sample: Sample) -> None:
    async with sample.client() as client:
        answer = await client.get("/stream", headers={"Last-Event-ID": "9" * 257})
    assert answer.status_code == 400


async def test_a_source_that_fails_for_a_moment_ends_the_stream_so_that_the_client_comes_again(sample: Sample) -> None:
    sample.error = Unreachable("away")
    async with sample.client() as client:
        answer = await client.get("/stream")
    assert (answer.status_code, told(answer.text)) == (200, [])
    assert sample.ended.is_set()


async def first_lines(client: httpx.AsyncClient, wanted: str) -> None:
    async with client.stream("GET", "/stream") as answer:
        async for line in answer.aiter_lines():
            if line == wanted:
                return


async def test_a_silent_stream_beats_and_ends_when_its_client_goes(sample: Sample) -> None:
    sample.gate.clear()
    app = sample.app()
    async with serving(app) as served, httpx.AsyncClient(base_url=served.url) as client:
        await first_lines(client, ": beat")
        await asyncio.wait_for(sample.ended.wait(), 5)
        await eventually(lambda: app.state.streams.open == 0, "the stream is let go")


async def test_a_service_that_stops_ends_its_streams(sample: Sample) -> None:
    sample.gate.clear()
    loop = asyncio.get_running_loop()
    async with httpx.AsyncClient() as client:
        async with serving(sample.app()) as served:
            streaming = asyncio.ensure_future(client.get(f"{served.url}/stream"))
            await sample.entered.wait()
            began = loop.time()
        answer = await streaming
    assert loop.time() - began < 3
    assert [event["id"] for event in told(answer.text)] == ["1", "2", "3"]
    assert sample.ended.is_set()


async def unread(served: Served, path: str) -> asyncio.StreamWriter:
    """A client that asks and then takes nothing: a reader with little room stops reading."""
    host = urlsplit(served.url).netloc
    reader, writer = await asyncio.open_connection(served.host, served.port, limit=1_000)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    await reader.readline()
    return writer


async def test_a_client_that_takes_nothing_is_cut_and_fills_no_memory(sample: Sample) -> None:
    app = sample.app(limits=Limits(stall_s_max=0.2))
    async with serving(app) as served:
        writer = await unread(served, "/flood")
        await asyncio.wait_for(sample.ended.wait(), 10)
        # What the kernel keeps for the two ends of a connection, and not much more.
        assert sample.pages * 10_000 < 30_000_000
        await eventually(lambda: app.state.streams.open == 0, "the stream is let go")
        writer.close()


async def test_a_client_that_takes_nothing_does_not_delay_the_end(sample: Sample) -> None:
    loop = asyncio.get_running_loop()
    async with serving(sample.app()) as served:
        writer = await unread(served, "/flood")
        await eventually(lambda: sample.pages > 100, "the flood runs")
        began = loop.time()
    assert loop.time() - began < 3
    writer.close()


async def test_no_more_streams_than_may_be_open(sample: Sample) -> None:
    sample.gate.clear()
    app = sample.app(limits=Limits(streams_max=1))
    async with serving(app) as served, httpx.AsyncClient(base_url=served.url) as client:
        first = asyncio.ensure_future(client.get("/stream"))
        await sample.entered.wait()
        refused = await client.get("/stream")
        sample.gate.set()
        assert (await first).status_code == 200
    assert (refused.status_code, refused.json()["type"]) == (503, "urn:headrace:problem:busy")
