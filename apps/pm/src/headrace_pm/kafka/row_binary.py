"""Rows in RowBinary of ClickHouse, columns in the order of its table: the form that costs nothing to read there.

Numbers are little-endian, a text is its length (LEB128) and its bytes, NULL is one byte 1 and nothing else. What
belongs to an object or a group is made once for each of them, and a row is four pieces put together.
"""

from __future__ import annotations

import struct
from itertools import chain

import numpy as np

from headrace_pm.counters.batch import BatchObjects, CounterBatch

COLUMNS = {
    "ne_id": "Int32",
    "record_time": "DateTime64(3, 'UTC')",
    "duration": "Int32",
    "counter_id": "Int32",
    "counter_value": "Nullable(Float64)",
    "group_code": "LowCardinality(String)",
    "rat_type": "LowCardinality(String)",
    "cell_index": "Int64",
    "obj_hash": "FixedString(8)",
    "extra_field": "String",
    "version": "UInt64",
}
"""The columns of `pm_counter_data` in ClickHouse and their types, in the order of the table."""
_FRONT, _PLACE, _VERSION = struct.Struct("<iqi"), struct.Struct("<q8s"), struct.Struct("<Q")
_COUNTER = np.dtype([("counter_id", "<i4"), ("is_null", "u1"), ("counter_value", "<f8")])
_NULL_SIZE, _SIZE = 5, 13
_CONTINUED = 0x80


class MalformedRows(ValueError):
    """Bytes that are not the rows which they are said to be."""


def text_piece(text: bytes) -> bytes:
    """A text with its length before it."""
    length, front = len(text), bytearray()
    while length >= _CONTINUED:
        front.append(length & 0x7F | _CONTINUED)
        length >>= 7
    front.append(length)
    return bytes(front) + text


def row_binary(batch: CounterBatch, version: int) -> bytes:
    """All rows of a batch, in its order."""
    fronts, backs = _object_pieces(batch.ne_id, batch.objects, version)
    groups = [text_piece(group.encode()) for group in batch.groups]
    pieces = zip(batch.object_of.tolist(), _counter_pieces(batch), batch.group_of.tolist(), strict=True)
    rows = ((fronts[item], counter, groups[group], backs[item]) for item, counter, group in pieces)
    return b"".join(chain.from_iterable(rows))


def _object_pieces(ne_id: int, objects: BatchObjects, version: int) -> tuple[list[bytes], list[bytes]]:
    """What stands before and after the counter in every row of an object."""
    times, durations = objects.record_time.tolist(), objects.duration.tolist()
    fronts = [_FRONT.pack(ne_id, time, duration) for time, duration in zip(times, durations, strict=True)]
    hashes = objects.obj_hash.astype(">u8").tobytes()
    backs = [
        b"".join(
            (
                text_piece(rat_type.encode()),
                _PLACE.pack(cell, hashes[8 * number : 8 * number + 8]),
                text_piece(extra),
                _VERSION.pack(version),
            )
        )
        for number, (rat_type, cell, extra) in enumerate(
            zip(objects.rat_type, objects.cell_index.tolist(), objects.extra_field, strict=True)
        )
    ]
    return fronts, backs


def _counter_pieces(batch: CounterBatch) -> list[bytes]:
    columns = np.zeros(len(batch), _COUNTER)
    columns["counter_id"], columns["counter_value"] = batch.counter_id, batch.counter_value
    nulls = np.isnan(batch.counter_value)
    columns["is_null"] = nulls
    packed = columns.tobytes()
    pieces = [packed[at : at + _SIZE] for at in range(0, len(packed), _SIZE)]
    for number in np.flatnonzero(nulls).tolist():
        pieces[number] = pieces[number][:_NULL_SIZE]
    return pieces


def check_rows(value: bytes, rows: int) -> None:
    """`MalformedRows` unless these bytes are exactly so many rows. In a block with others, one that ends too early or
    too late would turn the rows after it into others, and nobody would be told."""
    try:
        end = _walked(value, rows)
    except IndexError:
        raise MalformedRows(f"its value ends within the {rows} rows that its header states") from None
    if end != len(value):
        raise MalformedRows(f"its value has {len(value)} bytes, and {rows} rows of it take {end}")


def _walked(value: bytes, rows: int) -> int:
    at, front, place = 0, _FRONT.size + 4, _PLACE.size
    for _ in range(rows):
        at += front
        is_null = value[at]
        if is_null > 1:
            raise MalformedRows(f"byte {at} of its value is {is_null}, and a mark of NULL is 0 or 1")
        at += 1 if is_null else 9
        at = _after_text(value, _after_text(value, at)) + place
        at = _after_text(value, at) + _VERSION.size
    return at


def _after_text(value: bytes, at: int) -> int:
    length = value[at]
    if length < _CONTINUED:
        return at + 1 + length
    length, shift = length & 0x7F, 7
    while (byte := value[at + 1]) >= _CONTINUED:
        at += 1
        length |= (byte & 0x7F) << shift
        shift += 7
    return at + 2 + (length | byte << shift)
