"""A receiver for tests: it keeps what it was sent, and answers as it is told to."""

from __future__ import annotations

import httpx

from headrace.testing import HttpAnswer, HttpReceiver


def test_requests_are_kept_as_they_were_sent() -> None:
    with HttpReceiver() as receiver, httpx.Client(base_url=receiver.url, trust_env=False) as client:
        assert client.post("/hook?day=1", json={"id": 7}, headers={"Webhook-Id": "a"}).status_code == 200
        assert client.put("/form", data={"name": "An Nguyễn"}).content == b""
        assert client.get("/").is_success
    first, second, third = receiver.requests
    assert (first.method, first.path, first.headers["webhook-id"]) == ("POST", "/hook?day=1", "a")
    assert (first.document, second.form, third.body) == ({"id": 7}, {"name": "An Nguyễn"}, b"")


def test_each_is_answered_as_it_is_told_to() -> None:
    with HttpReceiver(lambda request: HttpAnswer(201, {"path": request.path}, {"Location": "/x"})) as receiver:
        made = httpx.get(f"http://{receiver.address}/jobs", trust_env=False)
        receiver.answer = lambda _request: HttpAnswer(503, b"later")
        refused = httpx.get(receiver.url, trust_env=False)
    assert (made.status_code, made.json(), made.headers["location"]) == (201, {"path": "/jobs"}, "/x")
    assert (refused.status_code, refused.content) == (503, b"later")
