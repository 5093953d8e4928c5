"""Migrations of an application's tables, where the server commits every definition by itself.

So a migration cannot be undone as a whole. It goes on where it stopped: each command of it is a part with a row that
says begun, then done. Definitions that were begun and turn out to be there were done by the run that did not come to
say so. Commands that change rows are in one transaction with their row. A lock of the server lets one run at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pymysql
from pymysql.constants import ER

from headrace.adapters.mysql.driver import MysqlOwner
from headrace.adapters.mysql.options import MysqlOptions
from headrace.adapters.mysql.statements import belongs_to_us, commands_of, is_definition, own_statements
from headrace.adapters.mysql.wire import MysqlConnection
from headrace.core.errors import Busy
from headrace.core.table_statements import TableMigration, pending, refused

LOCK_S_MAX = 600
# An index on a large table takes as long as it takes.
DEFINITION_S_MAX = 86_400.0
_ALREADY = {ER.TABLE_EXISTS_ERROR, ER.DUP_FIELDNAME, ER.DUP_KEYNAME, ER.CANT_DROP_FIELD_OR_KEY, ER.BAD_TABLE_ERROR}


@dataclass(frozen=True, slots=True)
class _Part:
    """One command of a migration."""

    owner: str
    migration: TableMigration
    number: int
    creates: str
    text: str

    @property
    def row(self) -> tuple[str, int, int, str]:
        return self.owner, self.migration.number, self.number, self.migration.name


def migrate_alone(options: MysqlOptions, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
    """On a connection of its own: apply what is missing; the names of it."""
    for migration in migrations:
        for part in migration.parts:
            if found := belongs_to_us(part.text):
                raise refused(migration.name, f"{found} belongs to headrace")
    return _alone(options, lambda connection: _migrate(connection, owner, migrations))


def missing_alone(options: MysqlOptions, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
    """On a connection of its own: the names of what is missing."""
    return _alone(options, lambda connection: _missing(connection, owner, migrations))


def _alone(options: MysqlOptions, work: Callable[[MysqlConnection], list[str]]) -> list[str]:
    own = MysqlOwner(options)
    try:
        return own.run(work, write=True)
    finally:
        own.close()


def _missing(connection: MysqlConnection, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
    applied = _applied(connection, owner, migrations) if _exists(connection, "headrace_table_migration") else []
    return [migration.name for migration in pending(owner, migrations, applied)]


def _migrate(connection: MysqlConnection, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
    _make_our_tables(connection)
    if not pending(owner, migrations, _applied(connection, owner, migrations)):
        return []
    connection.wait_for_answers(DEFINITION_S_MAX)
    if _rows(connection, "migration_lock", LOCK_S_MAX) != ((1,),):
        raise Busy("another program has been making tables in this database for a long time")
    try:
        missing = pending(owner, migrations, _applied(connection, owner, migrations))
        for migration in missing:
            for part in _parts(owner, migration):
                _make(connection, part)
    finally:
        if connection.open:
            _rows(connection, "migration_unlock")
    return [migration.name for migration in missing]


def _make_our_tables(connection: MysqlConnection) -> None:
    """Nothing is asked of a user who may not create what is there."""
    for name, text in (("headrace_unit", "unit_table"), ("headrace_table_migration", "migration_table")):
        if not _exists(connection, name):
            _rows(connection, text)


def _applied(connection: MysqlConnection, owner: str, migrations: Sequence[TableMigration]) -> list[int]:
    """Migrations all of whose parts are done. One that this program does not know counts as soon as it was begun."""
    known = {migration.number: {part.number for part in _parts(owner, migration)} for migration in migrations}
    found: dict[int, set[int]] = {}
    for number, part, is_done in _rows(connection, "migrations", owner):
        found.setdefault(number, set()).update({part} if is_done else ())
    return [number for number, done in found.items() if known.get(number, set()) <= done]


def _parts(owner: str, migration: TableMigration) -> Iterator[_Part]:
    commands = [(part.creates, command) for part in migration.parts for command in commands_of(part.text)]
    # A migration without any command is done by a row all the same.
    for number, (creates, command) in enumerate(commands or [("", "")]):
        yield _Part(owner, migration, number, creates, command)


def _make(connection: MysqlConnection, part: _Part) -> None:
    rows = _rows(connection, "migrations", part.owner)
    state = {at: is_done for number, at, is_done in rows if number == part.migration.number}
    if state.get(part.number):
        return
    if not part.text or (part.creates and _exists(connection, part.creates)):
        _rows(connection, "migration_done", *part.row)
    elif is_definition(part.text):
        _define(connection, part, was_begun=part.number in state)
    else:
        connection.begin()
        try:
            _send(connection, part.text)
            _rows(connection, "migration_done", *part.row)
            connection.commit()
        except BaseException:
            if connection.open:
                connection.rollback()
            raise


def _define(connection: MysqlConnection, part: _Part, was_begun: bool) -> None:
    _rows(connection, "migration_begun", *part.row)
    try:
        _send(connection, part.text)
    except pymysql.MySQLError as error:
        if not was_begun or error.args[0] not in _ALREADY:
            if connection.open:
                _rows(connection, "migration_failed", *part.row[:3])
            raise
    _rows(connection, "migration_done", *part.row)


def _exists(connection: MysqlConnection, name: str) -> bool:
    return bool(_rows(connection, "relation_exists", name, name)[0][0])


def _send(connection: MysqlConnection, text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text)


def _rows(connection: MysqlConnection, name: str, *values: object) -> Sequence[tuple[int, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(own_statements()[name], values or None)
        return cursor.fetchall() if cursor.description else ()
