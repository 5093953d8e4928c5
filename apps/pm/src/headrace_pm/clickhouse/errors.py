"""What an answer of ClickHouse means: is it the block that is wrong, the table, or the moment?

Only errors that are known to come from what a block holds count against it. Everything else is waited for: a server
that is full, busy, read-only or wrongly set up refuses good blocks too, and those must not be taken for poison.
"""

from __future__ import annotations

from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError

from headrace.errors import Busy, CallerError, HeadraceError, SchemaMismatch, Unknown

# Codes of ClickHouse: text, number, date or value that cannot be read, is out of its range, NULL where none may be,
# more data or less than rows need, a constraint that is violated, or an error that a view raises on purpose.
OF_THE_BLOCK = {6, 25, 26, 27, 33, 38, 41, 43, 69, 70, 72, 117, 131, 321, 349, 395, 407, 441, 469}
# A table, a database or a column that is not there, or has another type.
OF_THE_TABLE = {10, 16, 47, 53, 60, 81}
TOO_MANY_PARTS = 252
# Of the two reasons for that code this one comes from what the block holds.
TOO_MANY_PARTITIONS = "partitions for single INSERT"


class BlockRefused(CallerError):
    """ClickHouse does not take this block, now or later, because of what it holds."""


def meaning(error: ClickHouseError) -> HeadraceError:
    """The same error, by who must act."""
    code, text = getattr(error, "code", None), _first_line(error)
    if code is None and isinstance(error, OperationalError):
        return Unknown(f"ClickHouse did not answer: {text}")
    if code in OF_THE_BLOCK or (code == TOO_MANY_PARTS and TOO_MANY_PARTITIONS in text):
        return BlockRefused(text)
    if code in OF_THE_TABLE:
        return SchemaMismatch(f"the tables in ClickHouse are not those of pm: {text}", "headrace pm ddl shows them")
    return Busy(f"ClickHouse takes nothing at the moment: {text}")


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:500]
