"""What is sent: the revision of a file that batches belong to, and the records that carry one batch.

Every record names its batch by (file, revision, batch): that is its effect key. A record may arrive twice, after a lost
answer or a killed process, and whoever keeps one of each key has every counter once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from zlib import crc32

from headrace.errors import InvalidPayload
from headrace_pm.counters.batch import CounterBatch
from headrace_pm.kafka.forms import RecordForm
from headrace_pm.kafka.json_rows import json_rows
from headrace_pm.kafka.row_binary import row_binary


class RecordRefused(InvalidPayload):
    """The broker refuses a record for what it is, and would again: its file has ended, and others go on."""


@dataclass(frozen=True, slots=True)
class FileRevision:
    """One content of a file. `name` and `revision` are for those who read the topic, `version` orders upserts over all
    files, `epoch` is that of the claim under which it is written."""

    file_id: int
    name: str
    revision: int
    version: int
    epoch: int


@dataclass(frozen=True, slots=True)
class BatchRecords:
    """The records of one batch, ready to be sent; all have the same key and the same headers."""

    key: bytes
    values: tuple[bytes, ...]
    headers: tuple[tuple[str, bytes], ...] = ()
    size: int = field(init=False)
    """Bytes of all values."""

    def __post_init__(self) -> None:
        # Asked for several times on the way of a batch, which may have a thousand values.
        object.__setattr__(self, "size", sum(map(len, self.values)))


def json_records(file: FileRevision, batch: CounterBatch) -> BatchRecords:
    """One record for each counter."""
    values = json_rows(batch, file.version, {"file": file.name, "revision": file.revision, "batch": batch.number})
    return BatchRecords(_key(batch), tuple(values))


def row_binary_record(file: FileRevision, batch: CounterBatch) -> BatchRecords:
    """One record for the whole batch. What a reader must know before it reads the value stands in headers, as text."""
    value = row_binary(batch, file.version)
    headers = {
        "file": file.name,
        "revision": file.revision,
        "batch": batch.number,
        "rows": len(batch),
        "crc": crc32(value),
    }
    return BatchRecords(_key(batch), (value,), tuple((name, str(each).encode()) for name, each in headers.items()))


FORMS: dict[RecordForm, Callable[[FileRevision, CounterBatch], BatchRecords]] = {
    RecordForm.JSON: json_records,
    RecordForm.ROW_BINARY: row_binary_record,
}


def _key(batch: CounterBatch) -> bytes:
    return b"%d" % batch.ne_id
