"""One step on a connection: a statement for one set of values, or for many in as few round trips as the server allows.

MariaDB takes rows by its bulk command; MySQL has none, so there an INSERT is written for many rows. What is neither is
run one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headrace.adapters.mysql.bulk_rows import has_one_type_each, messages
from headrace.adapters.mysql.statements import RowGroup, Spelled, spelled
from headrace.adapters.mysql.values import literal, python_rows
from headrace.adapters.mysql.wire import BULK_HEAD_BYTES, MysqlConnection
from headrace.core.errors import CallerError, TooLarge
from headrace.core.table_columns import Columns
from headrace.core.table_statements import Row, Step, TableStatement
from headrace.core.units import StepDone

# More at once saves no round trip that counts, and is held twice in memory.
MESSAGE_BYTES_MAX = 4 * 1024 * 1024


def run(connection: MysqlConnection, step: Step) -> StepDone:
    """Run a step; the rows it returned, and how many it changed or found."""
    parts = spelled(step.statement.text)
    if len(step.values) > 1 or isinstance(step.values, Columns):
        if parts.in_bulk and connection.takes_bulk and has_one_type_each(step.values, parts.names):
            return StepDone((), _in_bulk(connection, parts, step.values))
        if parts.group is not None:
            return StepDone((), _as_text(connection, parts, parts.group, step))
    returned: list[Row] = []
    count = 0
    for values in step.values:
        changed, rows = one(connection, step.statement, values)
        returned += rows
        count += changed
    return StepDone(tuple(returned), count)


def one(connection: MysqlConnection, statement: TableStatement, values: Mapping[str, object]) -> tuple[int, list[Row]]:
    """Run a statement once; how many rows it changed or returned, and the rows."""
    parts = spelled(statement.text)
    text = _filled(statement.name, parts.pieces, [values[name] for name in parts.names])
    _check_size(connection, len(text))
    with connection.cursor() as cursor:
        # The driver's own way to put values in is not taken: it would read percent signs in ours.
        count = cursor.execute(text)
        rows = python_rows(cursor.description, cursor.fetchall()) if cursor.description else []
    return int(count), rows


def _in_bulk(connection: MysqlConnection, parts: Spelled, values: Sequence[Mapping[str, object]]) -> int:
    limit = min(connection.max_allowed_packet, MESSAGE_BYTES_MAX) - BULK_HEAD_BYTES
    if len(values) == 1:
        limit = connection.max_allowed_packet - BULK_HEAD_BYTES
    found = messages(values, parts.names, limit)
    return sum(connection.bulk(parts.marked, each.types, each.rows) for each in found)


def _as_text(connection: MysqlConnection, parts: Spelled, group: RowGroup, step: Step) -> int:
    head, tail = group.head.encode(), group.tail.encode()
    limit = min(connection.max_allowed_packet, MESSAGE_BYTES_MAX) - len(head) - len(tail) - 1
    count, size, rows = 0, 0, list[bytes]()
    for values in _rows(step.values, parts.names):
        row = _filled(step.statement.name, group.pieces, values)
        _check_size(connection, len(row) + len(head) + len(tail))
        if rows and size + len(row) > limit:
            count += _send(connection, head, rows, tail)
            size, rows = 0, []
        rows.append(row)
        size += len(row) + 1
    return count + _send(connection, head, rows, tail) if rows else count


def _send(connection: MysqlConnection, head: bytes, rows: Sequence[bytes], tail: bytes) -> int:
    with connection.cursor() as cursor:
        return int(cursor.execute(b"".join((head, b",".join(rows), tail))))


def _rows(values: Sequence[Mapping[str, object]], names: Sequence[str]) -> Iterator[Sequence[object]]:
    if isinstance(values, Columns):
        return values.rows(names)
    return ([each[name] for name in names] for each in values)


def _filled(name: str, pieces: Sequence[str], values: Sequence[object]) -> bytes:
    try:
        written = [piece for pair in zip(pieces, map(literal, values), strict=False) for piece in pair]
        return "".join((*written, pieces[-1])).encode()
    except (TypeError, ValueError, OverflowError) as error:
        raise CallerError(f"{name}: {error}") from error


def _check_size(connection: MysqlConnection, size: int) -> None:
    if size >= connection.max_allowed_packet:
        raise TooLarge(
            f"a statement of {size:,} bytes is over the server's max_allowed_packet = {connection.max_allowed_packet:,}"
        )
