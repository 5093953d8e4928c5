"""Events on the wire: all forms are read, ours are written for every kind of reader."""

from __future__ import annotations

import contextlib
import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_smap import envelope
from headrace_smap.envelope import Collected, Malformed
from headrace_smap.values import DONE, Standing

AT = datetime(2025, 11, 29, 10, 0, 0, tzinfo=UTC)
POST = {"project_id": "proj_abc", "platform": "TIKTOK", "minio_path": "raw/tiktok/vid_888.json", "crawled_at": "..."}


def body(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "document",
    [
        {"event_id": "evt_001", "timestamp": "2025-11-29T10:00:00Z", "payload": POST},
        {"event_id": "evt_001", "payload": POST},
        {"payload": POST},
        {"event_id": 7, "timestamp": None, "payload": POST},
        POST,
        {"project_id": "proj_abc", "payload": {**POST, "project_id": "proj_abc"}},
        {"project_id": "proj_abc", "payload": {name: POST[name] for name in POST if name != "project_id"}},
    ],
)
def test_every_form_of_a_collected_post_is_read(document: dict[str, Any]) -> None:
    read = envelope.collected(envelope.read(body(document)))
    beside = {name: document[name] for name in document if name == "project_id"} if "payload" in document else {}
    assert read == Collected("proj_abc", "raw/tiktok/vid_888.json", "tiktok", "...", beside=beside)


def test_the_flat_form_needs_nothing_but_the_project() -> None:
    message = envelope.read(b'{"project_id": "proj_abc"}')
    assert (message.project, message.event_id, dict(message.payload)) == ("proj_abc", "", {"project_id": "proj_abc"})


def test_fields_that_only_others_know_are_kept() -> None:
    read = envelope.collected(envelope.read(body({"payload": {**POST, "lang": "vi", "deep": [1, {"a": None}]}})))
    assert read.rest == {"lang": "vi", "deep": [1, {"a": None}]}
    told = json.loads(envelope.data_collected(read, AT).body)["payload"]
    assert told == {**POST, "lang": "vi", "deep": [1, {"a": None}]}


def test_fields_beside_the_payload_are_kept_there_and_name_nothing_of_ours() -> None:
    beside = {"tenant": "t1", "schema": {"v": 2}}
    given = {"event_id": "theirs", "timestamp": "then", "payload": POST, **beside}
    read = envelope.collected(envelope.read(body(given)))
    event = envelope.data_collected(read, AT, again="1")
    told = {"event_id": event.event_id, "timestamp": "2025-11-29T10:00:00.000Z", "payload": POST, **beside}
    assert json.loads(event.body) == told
    assert event.event_id != "theirs"


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (b"", "event_json"),
        (b"\xff\xfe{", "event_json"),
        (b"[1]", "event_json"),
        (b'{"payload": NaN}', "event_json"),
        (b"[" * 100_000, "event_json"),
        (b'{"event_id": "e"}', "event_payload"),
        (b'{"payload": "text"}', "event_payload"),
        (b'{"payload": {}}', "event_project"),
        (b'{"payload": {"project_id": 7}}', "event_project"),
        (b'{"payload": {"project_id": "  "}}', "event_project"),
        (b'{"project_id": "a\\nb"}', "event_project"),
        (b'{"project_id": "' + b"p" * 201 + b'"}', "event_project"),
    ],
)
def test_what_cannot_be_read_is_named(wrong: bytes, rule: str) -> None:
    with pytest.raises(Malformed) as refused:
        envelope.read(wrong)
    assert refused.value.rule == rule


@pytest.mark.parametrize("path", [None, "", 5, ["a"]])
def test_a_post_without_a_path_is_named(path: object) -> None:
    with pytest.raises(Malformed) as refused:
        envelope.collected(envelope.read(body({"payload": {"project_id": "p", "minio_path": path}})))
    assert refused.value.rule == "event_path"


def test_a_time_that_does_not_parse_is_kept_as_text() -> None:
    read = envelope.collected(envelope.read(body({"payload": {**POST, "crawled_at": 1764410400}})))
    assert read.crawled_at == "1764410400"


def test_the_completion_is_for_readers_of_both_forms_and_the_same_each_time() -> None:
    counts = Standing(DONE, total=10, done=10, errors=2)
    event, again = envelope.job_completed("proj_abc", counts, AT), envelope.job_completed("proj_abc", counts, AT)
    assert event == again
    assert json.loads(event.body) == {
        "event_id": envelope.completed_id("proj_abc"),
        "timestamp": "2025-11-29T10:00:00.000Z",
        "project_id": "proj_abc",
        "payload": {"project_id": "proj_abc", "total": 10, "done": 10, "errors": 2},
    }
    assert event.event_id != envelope.completed_id("proj_abd")


def test_a_retry_is_another_event_and_a_repeat_is_not() -> None:
    post = Collected("p", "raw/a.json", "tiktok")
    first, repeat = envelope.data_collected(post, AT), envelope.data_collected(post, AT)
    retry = envelope.data_collected(post, AT, again="1")
    assert first.event_id == repeat.event_id != retry.event_id


@given(st.lists(st.text(), min_size=1))
def test_a_derived_id_is_a_uuid_of_version_5(names: list[str]) -> None:
    text = envelope.derived_id(*names)
    space = uuid.UUID("b9a6c3f2-6d0f-5c39-9d43-8d3a4f1c7e55")
    assert text == f"evt_{uuid.uuid5(space, chr(0).join(names))}"


def test_names_that_run_together_differ() -> None:
    assert envelope.derived_id("a", "bc") != envelope.derived_id("ab", "c")


@given(st.text(min_size=1).filter(lambda text: text.strip() and text.isprintable() and len(text) <= 200), st.text())
def test_what_we_write_we_read(project: str, crawled_at: str) -> None:
    post = Collected(project, "raw/x.json", "youtube", crawled_at)
    event = envelope.data_collected(post, AT)
    message = envelope.read(event.body)
    assert envelope.collected(message) == post
    assert message.event_id == event.event_id


@given(st.binary() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(body))
def test_any_bytes_are_read_or_named(noise: bytes) -> None:
    with contextlib.suppress(Malformed):
        assert envelope.read(noise).project
