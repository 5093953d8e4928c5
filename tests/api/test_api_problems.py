"""Every error is problem+json, says what the caller can do, and never what it must not know."""

from __future__ import annotations

import pytest
from api_sample import Sample

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
    (errors.MissingExtra, 500, "misconfigured"),
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
    assert not any(word in answer.text for word in ("Traceback", "ZeroDivision", "hunter2", "api_sample"))
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


async def test_what_does_not_fit_is_named_and_not_repeated(sample: Sample) -> None:
    async with sample.client() as client:
        answer = await client.post("/things", json={"name": "", "parts": [1, "hunter2"]})
    assert answer.status_code == 422
    assert [each["where"] for each in answer.json()["errors"]] == ["name", "parts[1]"]
    assert "hunter2" not in answer.text


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b'{"name": "a"'])
async def test_what_is_not_json_is_told_so(body: bytes, sample: Sample) -> None:
    async with sample.client() as client:
        answer = await client.post("/things", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:headrace:problem:not-json")


async def test_a_body_of_another_kind_is_not_taken_for_json(sample: Sample) -> None:
    async with sample.client() as client:
        answer = await client.post("/things", content=b'{"name": "a"}', headers={"Content-Type": "text/plain"})
    assert (answer.status_code, sample.calls) == (422, 0)
