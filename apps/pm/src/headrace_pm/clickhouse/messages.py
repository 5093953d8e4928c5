"""Records of the topic as rows: both forms, each record proved whole before it joins others in a block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

from confluent_kafka import Message

from headrace_pm.kafka.json_rows import document_row, read_document
from headrace_pm.kafka.row_binary import MalformedRows, check_rows

REASON_CHARS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class RowsRecord:
    """One record that was read: rows in RowBinary, or the reason why it cannot become any. `value` is what stood in it
    if it goes to the dead ones."""

    offset: int
    rows: int
    block: bytes
    effect: tuple[str, str, str]
    key: bytes
    value: bytes
    reason: str = ""

    @property
    def is_poison(self) -> bool:
        return bool(self.reason)

    @property
    def size(self) -> int:
        return len(self.block) or len(self.value)


def read_record(message: Message) -> RowsRecord:
    """What a record holds; never raises because of what it holds."""
    value, key = _bytes(message.value()), _bytes(message.key())
    headers = {str(name): _bytes(each) for name, each in list(message.headers() or ())}
    offset = message.offset()
    assert offset is not None
    try:
        if "rows" in headers or "crc" in headers:
            rows = _stated(headers, value)
            return RowsRecord(offset, rows, value, _effect(headers), key, value)
        if value.lstrip()[:1] == b"{":
            document = read_document(value)
            effect = (document.file, str(document.revision), str(document.batch))
            return RowsRecord(offset, 1, document_row(document), effect, key, value)
        raise MalformedRows("its form is unknown: it has no headers rows and crc, and is no JSON object")
    except MalformedRows as error:
        return RowsRecord(offset, 0, b"", _effect(headers), key, value, str(error)[:REASON_CHARS_MAX])


def _stated(headers: Mapping[str, bytes], value: bytes) -> int:
    """How many rows there are, if it is as the headers say."""
    rows, crc = (_number(headers, name) for name in ("rows", "crc"))
    if crc32(value) != crc:
        raise MalformedRows(f"its value has CRC {crc32(value)}, and its header states {crc}")
    check_rows(value, rows)
    return rows


def _number(headers: Mapping[str, bytes], name: str) -> int:
    text = headers.get(name, b"")
    if not text.isdigit():
        raise MalformedRows(f"its header {name} is no number" if text else f"it has no header {name}")
    return int(text)


def _effect(headers: Mapping[str, bytes]) -> tuple[str, str, str]:
    file, revision, batch = (headers.get(name, b"").decode(errors="replace") for name in ("file", "revision", "batch"))
    return file, revision, batch


def _bytes(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""
