"""A table of files that another program made: it is used as it is, and its weaknesses are named."""

from __future__ import annotations

from headrace.tables import OpenTables

NO_PAD = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin")
NAME_INDEX = "pm_file_name"
"""With it 5,000 names are found among 500,000 in a tenth of a second, without in seconds."""
_COLUMNS = """
    id system_type ftp_server_key ftp_path file_name file_size state mysql_processed clickhouse_processed
    download_start_time download_end_time parse_start_time parse_end_time mysql_insert_time clickhouse_insert_time
    file_moved_time error_message retry_count max_retry created_at updated_at
"""


async def examined(tables: OpenTables) -> list[str]:
    """What is weaker than in a table of ours, and what other programs do to it, for `doctor` to show; nothing if it is
    one of ours and all is well."""
    return [*await _made(tables), *await _written(tables)]


async def _written(tables: OpenTables) -> list[str]:
    found = []
    minutes = next(iter(await tables.rows("foreign_minutes")))[0]
    if minutes:
        late = "files that they leave stuck are found so much later or earlier"
        found.append(f"programs that set no time zone write times that are {minutes:+,} minutes off UTC: {late}")
    states = [state for (state,) in await tables.rows("foreign_states")]
    if states:
        found.append(f"file_processing_state has rows in states that nobody works on: {', '.join(sorted(states)[:5])}")
    return found


async def _made(tables: OpenTables) -> list[str]:
    columns = {name.lower(): collation for name, _, collation in await tables.rows("adopted_columns")}
    keys = {name.lower(): (kind, bool(not_unique)) for name, kind, not_unique in await tables.rows("adopted_key")}
    found = [f"file_processing_state has no column {name}" for name in _COLUMNS.split() if name not in columns]
    if (collation := columns.get("file_name", NO_PAD[0])) not in NO_PAD:
        alike = "A.dat, a.dat, 'a.dat ' and á.dat may be one file"
        found.append(f"file_processing_state compares names by {collation}: {alike}")
    kind, is_not_unique = keys.get("uk_file", ("", True))
    if is_not_unique:
        found.append("file_processing_state has no unique key uk_file: a file may be there twice")
    elif kind != "BTREE" and NAME_INDEX not in keys:
        cure = f"CREATE INDEX {NAME_INDEX} ON file_processing_state (file_name)"
        found.append(
            f"uk_file of file_processing_state is a {kind.lower()}, so looking for names reads all rows: {cure}"
        )
    return found
