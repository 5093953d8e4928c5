"""Every request belongs to a trace, and its log lines say to which."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import structlog
from fastapi import APIRouter
from starlette.requests import Request

from headrace.http import Options, application, new_traceparent, read_traceparent, traceparent_of
from headrace.services import log_to_stderr

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


@pytest.fixture
def own_log() -> Iterator[None]:
    log_to_stderr()
    yield
    structlog.reset_defaults()


def client() -> httpx.AsyncClient:
    router = APIRouter()

    @router.get("/trace")
    async def trace(request: Request) -> str:
        structlog.get_logger("test").info("looked.at", thing=1)
        return traceparent_of(request)

    app = application(Options("sample"), [router])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


async def test_the_trace_of_the_caller_goes_on(own_log: None, capsys: pytest.CaptureFixture[str]) -> None:
    async with client() as asking:
        assert (await asking.get("/trace", headers={"traceparent": GIVEN})).json() == GIVEN
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "looked.at" in line]
    assert f"traceparent={GIVEN}" in line


@pytest.mark.parametrize(
    "headers", [[], [("traceparent", "nonsense")], [("traceparent", GIVEN), ("traceparent", new_traceparent())]]
)
async def test_without_one_a_trace_begins(headers: list[tuple[str, str]]) -> None:
    async with client() as asking:
        first, second = [(await asking.get("/trace", headers=headers)).json() for _ in range(2)]
    assert read_traceparent(first) == first != second
    assert first != GIVEN
    assert first.endswith("-01")
