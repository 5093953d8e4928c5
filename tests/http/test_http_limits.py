"""Everything that comes in has a limit, and the answer names it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from http_sample import Sample

from headrace.http import Limits
from headrace.http.limits import deeper_than

JSON = {"Content-Type": "application/json"}


async def chunks(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"[" + b" " * 99


@pytest.mark.parametrize("told", [True, False])
async def test_a_body_over_the_limit_is_refused_whether_its_length_is_told_or_not(told: bool, sample: Sample) -> None:
    content: bytes | AsyncIterator[bytes] = b" " * 1_001 if told else chunks(11)
    async with sample.client(limits=Limits(body_bytes_max=1_000)) as client:
        answer = await client.post("/things", content=content, headers=JSON)
        kept = await client.post("/things", content=b'{"name": "a"}'.ljust(1_000), headers=JSON)
    assert (answer.status_code, answer.json()["type"]) == (413, "urn:headrace:problem:too-large")
    assert "body_bytes_max = 1,000" in answer.json()["detail"]
    assert (kept.status_code, sample.calls) == (201, 1)


async def test_a_length_that_is_no_number_is_refused(sample: Sample) -> None:
    async with sample.client() as client:
        answer = await client.post("/things", content=b"{}", headers={**JSON, "Content-Length": "many"})
    assert answer.status_code == 400


async def test_a_body_that_does_not_come_is_not_waited_for(sample: Sample) -> None:
    async def stuck() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async with sample.client(limits=Limits(body_s_max=0.05)) as client:
        answer = await client.post("/things", content=stuck(), headers=JSON)
    assert (answer.status_code, answer.json()["type"]) == (408, "urn:headrace:problem:too-slow")


@pytest.mark.parametrize(("depth", "status"), [(31, 422), (32, 400), (100_000, 400)])
async def test_json_may_not_nest_too_deep(depth: int, status: int, sample: Sample) -> None:
    body = b'{"name": ' + b"[" * depth + b"]" * depth + b"}"
    async with sample.client() as client:
        answer = await client.post("/things", content=body, headers=JSON)
    assert answer.status_code == status
    assert ("depth_max = 32" in answer.text) == (status == 400)


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        (rb'{"a": "[[[["}', False),
        (rb'{"a": "\"[[[["}', False),
        (rb'{"a": "\\", "b": [[[', True),
        (rb'["open [[[[', False),
        (b"[][][][][]", False),
    ],
)
def test_brackets_in_texts_do_not_nest(text: bytes, deep: bool) -> None:
    assert deeper_than(text, 3) is deep


async def test_an_answer_that_does_not_come_is_given_up(sample: Sample) -> None:
    sample.gate.clear()
    async with sample.client(limits=Limits(request_s_max=0.05)) as client:
        answer = await client.get("/slow")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:headrace:problem:timed-out")
    assert "retry-after" in answer.headers


async def test_no_more_requests_than_may_be_in_hand(sample: Sample) -> None:
    sample.gate.clear()
    async with sample.client(limits=Limits(requests_max=1)) as client:
        first = asyncio.ensure_future(client.post("/things", json={"name": "a"}))
        await sample.entered.wait()
        refused = await client.get("/things")
        sample.gate.set()
        assert (await first).status_code == 201
        assert (await client.get("/things")).status_code == 200
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")


async def test_a_body_that_is_cut_is_no_request(sample: Sample) -> None:
    told: list[dict[str, object]] = []
    app = sample.app()
    headers = [(b"host", b"127.0.0.1"), (b"content-length", b"10")]
    scope = {"type": "http", "method": "POST", "path": "/things", "query_string": b"", "headers": headers}

    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def send(message: dict[str, object]) -> None:
        told.append(message)

    await app(scope, receive, send)  # type: ignore[arg-type]
    assert (told[0]["status"], sample.calls) == (400, 0)
