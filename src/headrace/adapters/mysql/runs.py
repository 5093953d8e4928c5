"""One step on a connection: a statement for one set of values, or for many in as few round trips as the server allows.

MariaDB takes rows by its bulk command; MySQL has none, so there an INSERT is written for many rows. What is neither is
run one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pymysql

from headrace.adapters.mysql.bulk_rows import has_one_type_each, messages
from headrace.adapters.mysql.statements import RowGroup, Spelled, spelled
from headrace.adapters.mysql.values import literal, python_rows
from headrace.adapters.mysql.wire import BULK_HEAD_BYTES, MysqlConnection
from headrace.core.errors import CallerError, TooLarge
from headrace.core.table_columns import Coded, Columns, column_of, plain
from headrace.core.table_statements import Row, Step, TableStatement, insist_on
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
    connection.committing = False
    text = _written(statement, values)
    _check_size(connection, len(text))
    (answer,) = connection.together((text,))
    return answered(answer)


def answered(answer: Any) -> tuple[int, list[Row]]:
    """How many rows a statement changed or returned, and the rows."""
    rows = python_rows(answer.description, answer.rows) if answer.description else []
    return int(answer.affected_rows), rows


class StatementPacket:
    """Statements that wait to be sent together, and the steps that they are of; some are of none. `answered` are those
    that the server has run so far."""

    def __init__(self, connection: MysqlConnection) -> None:
        self._connection = connection
        self._texts: list[bytes] = []
        self._size = 0
        self.steps: list[Step | None] = []
        self.answered = 0

    def takes(self, step: Step) -> bool:
        """Whether it is one run of one statement; else it has a way of its own, with many rows at a time."""
        return len(step.values) == 1 and not isinstance(step.values, Columns)

    def add(self, text: bytes, step: Step | None = None) -> None:
        self._texts.append(text)
        self._size += len(text) + 3
        self.steps.append(step)

    def has_room_for(self, text: bytes) -> bool:
        return self._size + len(text) <= min(self._connection.max_allowed_packet - 1, MESSAGE_BYTES_MAX)

    def add_step(self, step: Step) -> list[StepDone]:
        """With the step at its end; what was before it is sent now if it would be too long."""
        text = _written(step.statement, step.values[0])
        _check_size(self._connection, len(text))
        done = [] if self.has_room_for(text) else self.send()
        self.add(text, step)
        return done

    def send(self) -> list[StepDone]:
        """Send what there is; what each step did. `Conflict` for the first that did not what its author expected, and
        not what those behind it met because of that."""
        texts, steps, answers = self._texts, self.steps, list[Any]()
        self._texts, self.steps, self._size = [], [], 0
        if not texts:
            return []
        try:
            # All before any is read: what stayed on the line would be taken for the answer to a ROLLBACK.
            for answer in self._connection.together(texts):
                answers.append(answer)
                self.answered += 1
        except pymysql.MySQLError:
            _insist_on_all(steps, answers)
            raise
        _insist_on_all(steps, answers)
        found = [answered(answer) for step, answer in zip(steps, answers, strict=True) if step is not None]
        return [StepDone(tuple(rows), count) for count, rows in found]


def _insist_on_all(steps: Sequence[Step | None], answers: Sequence[Any]) -> None:
    for step, answer in zip(steps, answers, strict=False):
        if step is not None:
            insist_on(step, int(answer.affected_rows))


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
    form = "%s".join(piece.replace("%", "%%") for piece in group.pieces)
    texts = [_literals(step, name) for name in parts.names]
    with _callers_fault(step.statement.name):
        encoded = [row.encode() for row in map(form.__mod__, zip(*texts, strict=True))]
    for row in encoded:
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


def _literals(step: Step, name: str) -> Sequence[str]:
    """A column as text; of few different values, each is written once."""
    column = column_of(step.values, name)
    with _callers_fault(step.statement.name):
        if not isinstance(column, Coded):
            return list(map(literal, plain(column)))
        codes: Sequence[Any] = plain(column.codes)
        by_code = {code: literal(column.values[code]) for code in set(codes)}
        return list(map(by_code.__getitem__, codes))


def _written(statement: TableStatement, values: Mapping[str, object]) -> bytes:
    """With its values in it. The driver's own way to put them in is not taken: it would read percent signs in ours."""
    parts = spelled(statement.text)
    with _callers_fault(statement.name):
        literals = [literal(values[name]) for name in parts.names]
        written = [piece for pair in zip(parts.pieces, literals, strict=False) for piece in pair]
        return "".join((*written, parts.pieces[-1])).encode()


@contextmanager
def _callers_fault(name: str) -> Iterator[None]:
    """Values that are none for a statement."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise CallerError(f"{name}: {error}") from error


def _check_size(connection: MysqlConnection, size: int) -> None:
    if size >= connection.max_allowed_packet:
        raise TooLarge(
            f"a statement of {size:,} bytes is over the server's max_allowed_packet = {connection.max_allowed_packet:,}"
        )
