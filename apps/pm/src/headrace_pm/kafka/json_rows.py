"""Rows as JSON, one document for each counter: what consumers of the topic expect who know nothing of ClickHouse.

The columns of `pm_counter_data` by name, `record_time` in ms since 1970, `obj_hash` as 16 hexadecimal digits (a number
of 64 bits is cut by many readers of JSON), `extra_field` as an object, and what the record belongs to: `file`,
`revision` and `batch`. Values are written so that reading them gives the same 64 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

import msgspec

from headrace_pm.counters.batch import CounterBatch
from headrace_pm.kafka.row_binary import MalformedRows, text_piece

_FRONT, _VALUE, _BACK = struct.Struct("<iqii"), struct.Struct("<Bd"), struct.Struct("<q8s")
_VERSION = struct.Struct("<Q")
_NULL = b"\x01"
HASH_SIZE = 8


class CounterDocument(msgspec.Struct):
    """One counter, as it stands in a record. Fields that are not listed are nobody's business here."""

    ne_id: int
    record_time: int
    duration: int
    counter_id: int
    counter_value: float | None
    group_code: str
    rat_type: str
    cell_index: int
    obj_hash: str
    extra_field: msgspec.Raw
    version: int
    file: str
    revision: int
    batch: int


_DECODER = msgspec.json.Decoder(CounterDocument)


def json_rows(batch: CounterBatch, version: int, belongs_to: Mapping[str, object]) -> Iterator[bytes]:
    """The documents of a batch, in its order."""
    objects = batch.objects
    fronts = [
        b'{"ne_id":%d,"record_time":%d,"duration":%d,"counter_id":' % (batch.ne_id, time, duration)
        for time, duration in zip(objects.record_time.tolist(), objects.duration.tolist(), strict=True)
    ]
    end = b',"version":%d,%b' % (version, msgspec.json.encode(belongs_to)[1:])
    backs = [
        b',"rat_type":%b,"cell_index":%d,"obj_hash":"%016x","extra_field":%b%b'
        % (msgspec.json.encode(rat_type), cell, number, extra, end)
        for rat_type, cell, number, extra in zip(
            objects.rat_type, objects.cell_index.tolist(), objects.obj_hash.tolist(), objects.extra_field, strict=True
        )
    ]
    groups = [b',"group_code":' + msgspec.json.encode(group) for group in batch.groups]
    rows = zip(
        batch.counter_id.tolist(),
        batch.counter_value.tolist(),
        batch.group_of.tolist(),
        batch.object_of.tolist(),
        strict=True,
    )
    for counter, value, group, item in rows:
        # Only NaN differs from itself.
        shown = b"%a" % value if value == value else b"null"
        yield b'%b%d,"counter_value":%b%b%b' % (fronts[item], counter, shown, groups[group], backs[item])


def read_document(value: bytes) -> CounterDocument:
    """What a record says; `MalformedRows` names the first field that it lacks or that has the wrong type."""
    try:
        return _DECODER.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedRows(f"it is no counter in JSON: {error}") from None


def document_row(document: CounterDocument) -> bytes:
    """The row of a document in RowBinary."""
    value, extra = document.counter_value, bytes(document.extra_field)
    if not extra.startswith(b"{"):
        raise MalformedRows("it is no counter in JSON: extra_field is no object")
    try:
        digest = bytes.fromhex(document.obj_hash)
        if len(digest) != HASH_SIZE:
            raise ValueError(f"obj_hash has {len(digest)} bytes")
        return b"".join(
            (
                _FRONT.pack(document.ne_id, document.record_time, document.duration, document.counter_id),
                _NULL if value is None else _VALUE.pack(0, value),
                text_piece(document.group_code.encode()),
                text_piece(document.rat_type.encode()),
                _BACK.pack(document.cell_index, digest),
                text_piece(extra),
                _VERSION.pack(document.version),
            )
        )
    except (struct.error, ValueError) as error:
        raise MalformedRows(f"it is no counter in JSON: {error}") from None
