"""The events on the wire: schemas, names, what is refused, and the document that is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import uuid_utils

from headrace.cli.app import run
from headrace_matching.events import asyncapi, messages
from headrace_matching.events.names import (
    CLOSED_BY,
    COMPLETED,
    MATCH_RESULT,
    NAMES,
    PHASE_ENTERED,
    PRODUCTS_COLLECTED,
    READY,
    Phase,
)
from headrace_matching.events.schemas import EventSchemas, MalformedEvent, file_name, folder, schema
from headrace_matching.legacy.names import REPLACED, refusal

SCHEMAS = Path(__file__).resolve().parent.parent / "schemas" / "events"
ID = str(uuid_utils.uuid7())
STRICT, LENIENT = EventSchemas(), EventSchemas(any_ids=True)


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def example(name: str) -> dict[str, Any]:
    document: dict[str, Any] = {"job_id": "job-1", "event_id": ID}
    if name in READY:
        document["asset_id"] = "asset-1"
    if name == PHASE_ENTERED:
        document["phase"] = "matching"
    if name == MATCH_RESULT:
        pair = {"img_id": "i", "frame_id": "f", "score_pair": 0.5}
        document |= {"product_id": "p", "video_id": "v", "best_pair": pair, "score": 0.9, "ts": "2026-01-31T09:00:00Z"}
    return document


def test_there_is_a_schema_for_each_of_the_fourteen_events() -> None:
    assert len(NAMES) == 14
    assert {path.name for path in SCHEMAS.iterdir()} == {file_name(name) for name in NAMES}
    assert {entry.name for entry in folder().iterdir()} == {file_name(name) for name in NAMES}


def test_four_phases_wait_for_the_eight_names_of_the_specification() -> None:
    assert [len(names) for names in CLOSED_BY.values()] == [2, 4, 1, 1]
    assert list(CLOSED_BY) == list(Phase)[:4]
    assert len(COMPLETED) == 8


@pytest.mark.parametrize("name", NAMES)
def test_an_example_passes_by_the_schema_and_by_another_library(name: str) -> None:
    document = example(name)
    assert messages.read(name, json.dumps(document).encode(), STRICT) == document
    jsonschema.Draft202012Validator.check_schema(schema(name))
    jsonschema.Draft202012Validator(schema(name)).validate(document)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("field", ["job_id", "event_id"])
def test_an_event_without_its_ids_is_refused_by_the_field(name: str, field: str) -> None:
    document = example(name)
    del document[field]
    with pytest.raises(MalformedEvent, match=field):
        messages.read(name, json.dumps(document).encode(), STRICT)


@pytest.mark.parametrize("name", READY)
def test_a_ready_event_without_its_asset_is_refused(name: str) -> None:
    with pytest.raises(MalformedEvent, match="asset_id"):
        messages.read(name, body(job_id="j", event_id=ID), STRICT)


@pytest.mark.parametrize(
    "event_id",
    [
        "",
        "7",
        ID.upper(),
        ID.replace("-", ""),
        f"{{{ID}}}",
        f"{ID}\n",
        "018f4d3e-7a1b-4c2d-8e3f-123456789abc",
        "018f4d3e-7a1b-7c2d-ce3f-123456789abc",
        str(uuid_utils.uuid4()),
        None,
        7,
    ],
)
def test_an_event_id_that_is_no_canonical_uuid7_is_refused(event_id: Any) -> None:
    with pytest.raises(MalformedEvent, match="event_id"):
        messages.read(PRODUCTS_COLLECTED, body(job_id="j", event_id=event_id), STRICT)


@pytest.mark.parametrize("event_id", [ID, ID.upper(), str(uuid_utils.uuid4()), str(uuid_utils.uuid1())])
def test_any_uuid_is_taken_where_the_settings_say_so(event_id: str) -> None:
    read = messages.read(PRODUCTS_COLLECTED, body(job_id="j", event_id=event_id), LENIENT)
    assert messages.is_uuid7(read["event_id"]) == (event_id == ID)


def test_what_is_no_uuid_at_all_is_refused_there_too() -> None:
    with pytest.raises(MalformedEvent, match="event_id"):
        messages.read(PRODUCTS_COLLECTED, body(job_id="j", event_id="evt-1"), LENIENT)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"\xff\xfe",
        b'{"job_id":"\\ud800"}',
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b" " * 300_000,
        body(job_id="", event_id=ID),
        body(job_id="j\x00", event_id=ID),
        body(job_id="j" * 201, event_id=ID),
        body(job_id=["j"], event_id=ID),
    ],
)
def test_what_is_no_event_is_refused_with_words(raw: bytes) -> None:
    with pytest.raises(MalformedEvent, match=r"\w{3}"):
        messages.read(PRODUCTS_COLLECTED, raw, STRICT)


def test_extra_fields_are_kept() -> None:
    document = {"job_id": "j", "event_id": ID, "source": {"host": "a"}, "traceparent": None}
    assert messages.read(PRODUCTS_COLLECTED, json.dumps(document).encode(), STRICT) == document


def test_what_we_publish_is_held_to_its_schema() -> None:
    assert messages.per_job(PRODUCTS_COLLECTED, "j", ID).topic == PRODUCTS_COLLECTED
    with pytest.raises(MalformedEvent, match="event_id"):
        messages.per_job(PRODUCTS_COLLECTED, "j", "evt-1")
    with pytest.raises(MalformedEvent, match="asset_id"):
        messages.per_asset("image.embedding.ready", "j", "", ID)


def test_the_same_id_under_two_names_is_two_messages_of_a_bus() -> None:
    """A bus that knows repeats by their id would drop the second one."""
    first, second = (messages.per_job(name, "j", ID) for name in sorted(COMPLETED)[:2])
    assert first.event_id != second.event_id
    assert (
        messages.per_job(PRODUCTS_COLLECTED, "j", ID).event_id != messages.per_job(PRODUCTS_COLLECTED, "k", ID).event_id
    )


def test_an_old_name_is_refused_with_what_took_its_place() -> None:
    assert all(refusal(name) for name in REPLACED)
    assert [refusal(name) for name in NAMES] == [""] * 14


def test_the_asyncapi_document_names_every_event_with_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["matching", "asyncapi", "--exchange", "other"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == asyncapi.document("other")
    assert set(found["channels"]) == set(NAMES)
    for name in NAMES:
        assert found["components"]["messages"][name]["payload"]["schema"] == schema(name)
        assert found["channels"][name]["bindings"]["amqp"]["exchange"]["name"] == "other"
    assert all(
        publisher in {"api", "products", "videos", "embedding", "keypoint", "matcher", "evidence"}
        for publisher in map(asyncapi.publisher, NAMES)
    )
