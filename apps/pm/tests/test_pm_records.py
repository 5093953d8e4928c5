"""Both forms of records hold the same rows, bit for bit, and one that is not whole is told from the others."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pm_kafka_world import FILE, batch_of, rows

from headrace_pm.clickhouse.messages import RowsRecord, read_record
from headrace_pm.counters.batch import CounterBatch
from headrace_pm.counters.row_digest import DIGEST_MODULUS, batch_digest
from headrace_pm.kafka.json_rows import document_row, read_document
from headrace_pm.kafka.records import json_records, row_binary_record
from headrace_pm.kafka.row_binary import MalformedRows, check_rows, row_binary, text_piece


class Read:
    """A record as a consumer gets it."""

    def __init__(self, value: bytes | None, headers: dict[str, str] | None = None) -> None:
        self._value, self._headers = value, headers or {}

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> bytes:
        return b"11"

    def headers(self) -> list[tuple[str, bytes]]:
        return [(name, value.encode()) for name, value in self._headers.items()]

    def offset(self) -> int:
        return 5


def read(value: bytes | None, headers: dict[str, str] | None = None) -> RowsRecord:
    message: Any = Read(value, headers)
    return read_record(message)


def test_a_json_record_has_the_columns_of_the_table_and_names_its_batch() -> None:
    batch = batch_of(3)
    records = json_records(FILE, batch)
    belongs_to = {"version": FILE.version, "file": FILE.name, "revision": FILE.revision, "batch": 3}
    assert [json.loads(value) for value in records.values] == [{**row, **belongs_to} for row in rows(batch)]
    assert records.key == b"11"
    assert records.headers == ()


def test_a_row_binary_record_is_the_whole_batch() -> None:
    batch = batch_of(3)
    records = row_binary_record(FILE, batch)
    [value] = records.values
    named = {"file": FILE.name, "revision": 2, "batch": 3, "rows": 20, "crc": crc32(value)}
    assert dict(records.headers) == {name: str(each).encode() for name, each in named.items()}
    check_rows(value, 20)


def test_both_forms_hold_the_same_rows() -> None:
    batch = batch_of(3)
    documents = map(read_document, json_records(FILE, batch).values)
    assert b"".join(map(document_row, documents)) == row_binary(batch, FILE.version)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=False), min_size=1, max_size=30))
def test_every_value_survives_its_text(values: list[float]) -> None:
    batch = replace(batch_of(0, len(values)), counter_value=np.array(values))
    documents = map(read_document, json_records(FILE, batch).values)
    assert b"".join(map(document_row, documents)) == row_binary(batch, FILE.version)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 300, 16_383, 16_384, 3_000_000])
def test_texts_of_any_length_are_walked_over(length: int) -> None:
    batch = batch_of(0, 2)
    objects = replace(batch.objects, extra_field=(b"x" * length, b"{}"))
    check_rows(row_binary(replace(batch, objects=objects), 1), 2)
    assert text_piece(b"x" * length).endswith(b"x" * length)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 5_000), st.integers(0, 255), st.integers(1, 40))
def test_bytes_that_are_no_rows_end_with_a_reason(cut: int, byte: int, stated: int) -> None:
    """Whatever byte is damaged: another count of rows, or an end that is missing, is told."""
    value = bytearray(row_binary(batch_of(0, 20), 1))
    value[cut % len(value)] = byte
    if stated != 20:
        with pytest.raises(MalformedRows):
            check_rows(bytes(value), stated)
    with pytest.raises(MalformedRows):
        check_rows(bytes(value[:-1]), 20)


@pytest.mark.parametrize(
    ("value", "headers", "reason"),
    [
        (b"\x00\x01", {}, "form is unknown"),
        (None, {}, "form is unknown"),
        (b'{"ne_id": 1}', {}, "record_time"),
        (b"{broken", {}, "no counter in JSON"),
        (b"ab", {"rows": "1", "crc": "7"}, "has CRC"),
        (b"ab", {"rows": "1", "crc": str(crc32(b"ab"))}, "ends within"),
        (b"ab", {"rows": "many", "crc": "1"}, "header rows is no number"),
        (b"ab", {"rows": "1"}, "has no header crc"),
    ],
)
def test_poison_is_told_with_its_reason(value: bytes | None, headers: dict[str, str], reason: str) -> None:
    record = read(value, headers)
    assert record.is_poison
    assert reason in record.reason
    assert record.block == b""


@pytest.mark.parametrize(
    ("name", "value"),
    [("ne_id", 2**40), ("obj_hash", "12"), ("obj_hash", "zz" * 8), ("extra_field", "text"), ("version", -1)],
)
def test_a_document_that_fits_no_row_is_poison(name: str, value: Any) -> None:
    document = json.loads(json_records(FILE, batch_of(0)).values[0])
    assert not read(json.dumps(document).encode()).is_poison
    assert read(json.dumps({**document, name: value}).encode()).is_poison


def part(batch: CounterBatch, chosen: Any) -> CounterBatch:
    return replace(
        batch,
        counter_id=batch.counter_id[chosen],
        counter_value=batch.counter_value[chosen],
        group_of=batch.group_of[chosen],
        object_of=batch.object_of[chosen],
    )


def test_a_digest_does_not_depend_on_order_and_adds_up() -> None:
    batch = batch_of(0, 30)
    shuffled = part(batch, np.random.default_rng(1).permutation(30))
    assert batch_digest(shuffled) == batch_digest(batch)
    halves = batch_digest(part(batch, slice(0, 11))) + batch_digest(part(batch, slice(11, 30)))
    assert halves % DIGEST_MODULUS == batch_digest(batch)


@pytest.mark.parametrize("column", ["counter_id", "counter_value", "group_of", "object_of"])
def test_a_digest_shows_one_changed_value(column: str) -> None:
    batch = batch_of(0, 30)
    changed = getattr(batch, column).copy()
    changed[1] = changed[2] if column != "object_of" else 1
    assert batch_digest(replace(batch, **{column: changed})) != batch_digest(batch)
