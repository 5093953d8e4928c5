"""Files as operators look at them: one page after the other, and each server with what it brought."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime

from headrace.tables import OpenTables
from headrace_pm.tables.redo import like_pattern, name_values


@dataclass(frozen=True, slots=True)
class ListedRow:
    """A row of `file_processing_state`, and who works on it until when it is due. `holder` is None if nobody does."""

    id: int
    system_type: str
    ftp_server_key: str
    ftp_path: str
    file_name: str
    file_size: int | None
    state: str
    mysql_processed: bool
    clickhouse_processed: bool
    retry_count: int | None
    max_retry: int | None
    error_message: str | None
    created_at: datetime | None
    updated_at: datetime | None
    download_start_time: datetime | None
    download_end_time: datetime | None
    parse_start_time: datetime | None
    parse_end_time: datetime | None
    mysql_insert_time: datetime | None
    clickhouse_insert_time: datetime | None
    file_moved_time: datetime | None
    revision: int | None
    holder: str | None
    due_at: datetime | None

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        found = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in found}


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Which files; None narrows nothing. `names` and `errors` have `*` and `?` as a shell has."""

    state: str | None = None
    names: str | None = None
    errors: str | None = None
    server: str | None = None

    def values(self) -> dict[str, object]:
        """As the statement takes it."""
        return {
            "state": self.state,
            **name_values(self.names),
            "error_like": None if self.errors is None else like_pattern(self.errors),
            "server": self.server,
        }


async def listed_files(
    tables: OpenTables, wanted: FileFilter, count_max: int, before: int | None = None
) -> list[ListedRow]:
    """The newest of them, below an id; the last id of a page leads to the next."""
    rows = await tables.rows("files_page", **wanted.values(), before=before, count_max=count_max)
    return [ListedRow(*row) for row in rows]


async def live_holds(tables: OpenTables) -> dict[str, int]:
    """Who works on how many files now."""
    return {owner: int(files) for owner, files in await tables.rows("live_holds")}
