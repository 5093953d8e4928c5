"""Every error is problem+json, says what the caller can do, and never what it must not know."""

from __future__ import annotations

import asyncio

import pytest
from http_sample import Sample

from headrace.core import errors

SECRET = "postgresql://smap:hunter2@db/smap"


def test_the_sample_knows_every_error_of_the_tree() -> None:
    tree = {
        thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, errors.HeadraceError)
    }
    assert tree == {errors.HeadraceError, *(kind for kind, _, _ in STATUSES)}


STATUSES = [
    (errors.CallerError, 400, "bad-request"),
    (errors.InvalidFlow, 400, "bad-request"),
    (errors.UnknownStage, 400, "bad-request"),
    (errors.TransactionEnded, 400, "bad-request"),
    (errors.InvalidPayload, 422, "invalid"),
    (errors.TooLarge, 413, "too-large"),
    (errors.NotFound, 404, "not-found"),
    (errors.Conflict, 409, "conflict"),
    (errors.ClaimLost, 409, "conflict"),
    (errors.OperatorError, 500, "misconfigured"),
    (errors.SchemaMismatch, 500, "misconfigured"),
    (errors.UnsafeStore, 500, "misconfigured"),
    (errors.StoreReplaced, 500, "misconfigured"),
    (errors.PortTaken, 500, "misconfigured"),
    (errors.HandlersHang, 500, "misconfigured"),
    (errors.MissingExtra, 500, "misconfigured"),
    (errors.ClockSkewed, 503, "unreachable"),
    (errors.StoreFull, 503, "no-room"),
    (errors.Unreachable, 503, "unreachable"),
    (errors.TryAgain, 503, "unreachable"),
    (errors.Unknown, 503, "unreachable"),
    (errors.Busy, 503, "unreachable"),
]


@pytest.mark.parametrize(("kind", "status", "name"), STATUSES)
async def test_an_error_has_its_status(
    kind: type[errors.HeadraceError], status: int, name: str, sample: Sample
) -> None:
    sample.error = kind(SECRET)
    async with sample.client() as client:
        answer = await client.get("/things")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    problem = answer.json()
    assert (problem["type"], problem["status"]) == (f"urn:headrace:problem:{name}", status)
    assert problem["title"]
    assert problem["instance"] == "/things"
    assert ("retry-after" in answer.headers) == (status == 503)
    if status >= 500:
        assert "hunter2" not in answer.text


async def test_the_caller_is_told_what_to_do(sample: Sample) -> None:
    sample.error = errors.Conflict("it is closed", "open another")
    async with sample.client() as client:
        problem = (await client.get("/things")).json()
    assert (problem["detail"], problem["hint"]) == ("it is closed", "open another")


async def test_a_mistake_of_ours_is_not_shown(sample: Sample, capsys: pytest.CaptureFixture[str]) -> None:
    sample.error = ZeroDivisionError(SECRET)
    async with sample.client() as client:
        answer = await client.get("/things")
    assert answer.status_code == 500
    assert not any(word in answer.text for word in ("Traceback", "ZeroDivision", "hunter2", "http_sample"))
    assert "http.failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [("GET", "/nothing", 404, "not-found"), ("DELETE", "/things", 405, "method-not-allowed")],
)
async def test_what_is_not_there_is_a_problem_too(
    method: str, path: str, status: int, kind: str, sample: Sample
) -> None:
    async with sample.client() as client:
        answer = await client.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["type"].endswith(kind)


@pytest.mark.parametrize(
    ("method", "path", "methods"),
    [("PUT", "/things", "GET, HEAD, POST"), ("POST", "/api/v1/things/one", "GET, HEAD"), ("PUT", "/", "GET, HEAD")],
)
async def test_every_method_of_a_path_is_allowed(method: str, path: str, methods: str, sample: Sample) -> None:
    async with sample.client() as client:
        answer = await client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, methods)


@pytest.mark.parametrize("path", ["/things", "/api/v1/things/one", "/", "/healthz", "/nothing"])
async def test_head_is_answered_as_get_without_a_body(path: str, sample: Sample) -> None:
    async with sample.client() as client:
        whole, head = await client.get(path), await client.head(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


@pytest.mark.parametrize("path", ["/stream", "/flood"])
async def test_head_of_a_stream_ends_before_its_first_event(path: str, sample: Sample) -> None:
    sample.gate.clear()
    async with sample.client() as client:
        head = await asyncio.wait_for(client.head(path), 10)
    assert (head.status_code, head.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    assert (sample.pages, sample.entered.is_set()) == (0, False)


async def test_what_does_not_fit_is_named_and_not_repeated(sample: Sample) -> None:
    async with sample.client() as client:
        answer = await client.post("/things", json={"name": "", "parts": [1, "hunter2"]})
    assert answer.status_code == 422
    assert [each["where"] for each in answer.json()["errors"]] == ["name", "parts[1]"]
    assert "hunter2" not in answer.text


@pytest.mark.parametrize(
    ("thing", "where", "detail"),
    [
        ({"name": "a", "parts": [-1]}, "parts[0]", "parts[0] is under nothing"),
        ({"name": "hunter2"}, "body", "body: nobody is called so"),
    ],
)
async def test_what_is_wrong_with_the_whole_is_told_of_the_field_it_means(
    thing: dict[str, object], where: str, detail: str, sample: Sample
) -> None:
    async with sample.client() as client:
        problem = (await client.post("/things", json=thing)).json()
    assert (problem["errors"][0]["where"], problem["detail"]) == (where, detail)


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b'{"name": "a"', b'{"name": "\xff"}', b"9" * 5_000])
async def test_what_is_not_json_is_told_so(body: bytes, sample: Sample) -> None:
    async with sample.client() as client:
        answer = await client.post("/things", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:headrace:problem:not-json")
    assert "UTF-8" in answer.json()["detail"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
async def test_a_body_of_another_kind_is_not_taken_for_json(kind: str | None, sample: Sample) -> None:
    headers = {"Content-Type": kind} if kind else {}
    async with sample.client() as client:
        answer = await client.post("/things", content=b'{"name": "a"}', headers=headers)
    assert (answer.status_code, sample.calls) == (415, 0)
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Content-Type: application/json" in answer.json()["detail"]
