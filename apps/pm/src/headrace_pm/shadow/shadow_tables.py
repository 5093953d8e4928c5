"""The tables of a shadow: every table of ours under another name, in the same database.

Their names are `pm_shadow_…`: `file_processing_state` becomes `pm_shadow_file_processing_state`, and `pm_counter_data`
`pm_shadow_counter_data`. All statements are the same. What operators fill, servers and dictionaries, is shared.
"""

from __future__ import annotations

from headrace.tables import Statements

SHARED = frozenset(
    {"ftp_server", "ftp_path", "ne", "counter_cat", "extra_field_column", "node_function", "pm_dictionary_import"}
)
COPY = "shadow"
DIALECT = "mysql"
COUNTERS = "pm_counter_data"


def shadow_name(table: str) -> str:
    """`pm_shadow_…`, with one `pm_` only."""
    return f"pm_{COPY}_{table.removeprefix('pm_')}"


def shadow_of(statements: Statements, *tables: str) -> Statements:
    """The same statements on the tables of the shadow: on those that their migrations make, and on these."""
    own = (statements.created(DIALECT) | set(tables)) - SHARED
    renamed = tuple((table, shadow_name(table)) for table in sorted(own))
    return Statements(statements.package, statements.repeatable, COPY, renamed)


COMPARED = Statements("headrace_pm.shadow", repeatable=True)
COMPARED_SHADOW = shadow_of(COMPARED, COUNTERS)
