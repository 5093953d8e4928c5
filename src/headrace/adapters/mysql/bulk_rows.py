"""Rows in the form of the bulk command: for each value a byte that says whether it is NULL, then the value in binary.

Columns whose elements are all of one width become one packed array, and if there are no others that is the message as
it is. A column of texts becomes one piece of bytes for each row, a column of few different values the same few pieces
again and again. So a row costs a fraction of a microsecond, whatever the number of its columns.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from typing import Any

from pymysql.constants import FIELD_TYPE

from headrace.adapters.mysql.values import INT64, checked_number, json_text, utc
from headrace.core.errors import CallerError, TooLarge
from headrace.core.table_columns import Coded, ValueColumn, column_of, plain

VALUE, NULL = b"\0", b"\1"
_UNSIGNED = 128
_TEXT, _BYTES, _WHOLE, _REAL = FIELD_TYPE.VAR_STRING, FIELD_TYPE.BLOB, FIELD_TYPE.LONGLONG, FIELD_TYPE.DOUBLE
_KINDS: Mapping[type, int] = {
    bool: FIELD_TYPE.TINY,
    int: _WHOLE,
    float: _REAL,
    str: _TEXT,
    bytes: _BYTES,
    bytearray: _BYTES,
    memoryview: _BYTES,
    datetime: FIELD_TYPE.DATETIME,
    date: FIELD_TYPE.DATE,
    Decimal: FIELD_TYPE.NEWDECIMAL,
    list: _TEXT,
    dict: _TEXT,
    tuple: _TEXT,
}
_ARRAYS = {"i1": 1, "i2": 2, "i4": 3, "i8": 8, "f4": 4, "f8": 5, "b1": 1}
# A row has pieces of its own while it is put together, ten times its size. From here on more at once saves nothing.
ROWS_PER_MESSAGE = 1_000
_DATE, _DATETIME, _INT, _FLOAT = (struct.Struct(form) for form in ("<BHBB", "<BHBBBBBI", "<q", "<d"))


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """What the server is told of a column's type, and its elements: a packed array, or a piece of bytes for each."""

    type: bytes
    array: Any = None
    cells: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class BulkMessage:
    """`count` rows and the types of their values."""

    types: bytes
    rows: bytes
    count: int


def messages(values: Sequence[Mapping[str, object]], names: Sequence[str], bytes_max: int) -> Iterator[BulkMessage]:
    """All rows in order. A message is made when it is asked for, so that one of them is in memory at a time."""
    for first in range(0, len(values), ROWS_PER_MESSAGE):
        yield from _messages(values[first : first + ROWS_PER_MESSAGE], names, bytes_max)


def _messages(values: Sequence[Mapping[str, object]], names: Sequence[str], bytes_max: int) -> Iterator[BulkMessage]:
    encoded = [_encoded(name, column_of(values, name)) for name in names]
    types = b"".join(column.type for column in encoded)
    rows = _joined(encoded)
    if len(types) + len(rows) <= bytes_max:
        yield BulkMessage(types, rows, len(values))
    elif len(values) == 1:
        raise TooLarge(f"a row of {len(rows):,} bytes is over the server's max_allowed_packet = {bytes_max:,}")
    else:
        middle = len(values) // 2
        yield from _messages(values[:middle], names, bytes_max)
        yield from _messages(values[middle:], names, bytes_max)


def has_one_type_each(values: Sequence[Mapping[str, object]], names: Sequence[str]) -> bool:
    """Whether rows can go in bulk: there every value of a name has one type."""
    return all(hasattr(column, "dtype") or _kinds(column) for column in (column_of(values, name) for name in names))


def _kinds(column: ValueColumn) -> bool:
    elements: Sequence[object] = column.values if isinstance(column, Coded) else plain(column)
    kinds = {_KINDS.get(type(each)) for each in elements if each is not None}
    # Above that a number is one without a sign, which is another type.
    return len(kinds) <= 1 and not (kinds == {_WHOLE} and any(each > INT64[-1] for each in elements if each))  # type: ignore[operator]


def _joined(columns: Sequence[EncodedColumn]) -> bytes:
    """Neighbours of fixed width are packed together, the rest is put between them row by row."""
    parts: list[Any] = []
    packed: list[Any] = []
    for column in [*columns, None]:
        if column is not None and column.array is not None:
            packed.append(column.array)
            continue
        if packed:
            parts.append(_packed(packed))
            packed = []
        if column is not None:
            parts.append(column.cells)
    if len(parts) == 1 and hasattr(parts[0], "tobytes"):
        return bytes(parts[0].tobytes())
    lists = [part.view(f"V{part.itemsize}").tolist() if hasattr(part, "tobytes") else part for part in parts]
    return b"".join(chain.from_iterable(zip(*lists, strict=True)))


def _packed(arrays: Sequence[Any]) -> Any:
    """One array of rows: before each element a byte that says it is a value."""
    import numpy

    fields = [(f"{kind}{place}", form) for place, array in enumerate(arrays) for kind, form in _forms(array)]
    packed = numpy.zeros(len(arrays[0]), dtype=fields)
    for place, array in enumerate(arrays):
        packed[f"value{place}"] = array
    return packed


def _forms(array: Any) -> tuple[tuple[str, Any], tuple[str, Any]]:
    return ("is_null", "u1"), ("value", array.dtype.newbyteorder("<"))


def _encoded(name: str, column: ValueColumn) -> EncodedColumn:
    if isinstance(column, Coded):
        codes: Sequence[Any] = plain(column.codes)
        used = sorted(set(codes))
        few = _cells(name, [column.values[code] for code in used])
        by_code = dict(zip(used, few.cells, strict=True))
        return EncodedColumn(few.type, cells=list(map(by_code.__getitem__, codes)))
    form = getattr(getattr(column, "dtype", None), "str", "")[1:]
    unsigned = form.startswith("u")
    if (code := _ARRAYS.get(form.replace("u", "i"))) is None:
        return _cells(name, plain(column))
    return _array(name, column, bytes((code, _UNSIGNED if unsigned else 0)))


def _array(name: str, column: Any, kind: bytes) -> EncodedColumn:
    import numpy

    missing = numpy.ma.getmaskarray(column) if numpy.ma.isMaskedArray(column) else None
    array = numpy.ma.getdata(column)
    if array.dtype.kind == "f":
        right = numpy.isfinite(array)
        if not (right if missing is None else right | missing).all():
            raise CallerError(f"{name}: NaN and infinity are no numbers that MySQL can hold", "mask them for NULL")
    if missing is None or not missing.any():
        return EncodedColumn(kind, array=array)
    packed = _packed([array])
    cells = packed.view(f"V{packed.itemsize}").tolist()
    for place in numpy.flatnonzero(missing).tolist():
        cells[place] = NULL
    return EncodedColumn(kind, cells=cells)


def _cells(name: str, values: Sequence[object]) -> EncodedColumn:
    try:
        code = next((_KINDS[type(each)] for each in values if each is not None), _TEXT)
        return EncodedColumn(bytes((code, 0)), cells=[NULL if each is None else VALUE + _cell(each) for each in values])
    except KeyError as error:
        raise CallerError(f"{name}: {error.args[0].__name__} is no value") from None
    except (TypeError, ValueError, OverflowError, struct.error) as error:
        raise CallerError(f"{name}: {error}") from error


def _cell(value: object) -> bytes:
    match value:
        case bool():
            return b"\1" if value else b"\0"
        case int():
            return _INT.pack(checked_number(value))
        case float():
            return _FLOAT.pack(checked_number(value))
        case str():
            return _text(value.encode())
        case bytes() | bytearray() | memoryview():
            return _text(bytes(value))
        case datetime():
            at = utc(value)
            return _DATETIME.pack(11, at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond)
        case date():
            return _DATE.pack(4, value.year, value.month, value.day)
        case Decimal():
            checked_number(float(value))
            return _text(str(value).encode())
        case list() | dict() | tuple():
            return _text(json_text(value).encode())
    raise TypeError(f"{type(value).__name__} is no value")


def _text(value: bytes) -> bytes:
    """With its length before it, in as few bytes as that takes."""
    size = len(value)
    if size < 0xFB:
        return bytes((size,)) + value
    if size < 1 << 16:
        return b"\xfc" + size.to_bytes(2, "little") + value
    if size < 1 << 24:
        return b"\xfd" + size.to_bytes(3, "little") + value
    return b"\xfe" + size.to_bytes(8, "little") + value
