"""What `doctor` says of the tables: a table that others made, servers that cannot be used, dictionaries that lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.commands import Check, bad, fine, warning
from headrace.errors import HeadraceError
from headrace.tables import OpenTables
from headrace_pm.ftp.errors import PasswordMissing
from headrace_pm.ftp.servers import FileServer
from headrace_pm.operators.dictionary_import import shared_folder
from headrace_pm.operators.kpi.formula import Formula
from headrace_pm.tables.adoption import examined

Rows = list[tuple[Any, ...]]
IMPORT = "headrace pm import DIR"


async def examined_tables(tables: OpenTables, environment: Mapping[str, str]) -> list[Check]:
    """All checks. `environment` is where passwords may be."""
    found = {
        name: await tables.rows(f"{name}_rows")
        for name in ("ftp_server", "ftp_path", "ne", "counter_cat", "extra_field_column", "pm_kpi")
    }
    weak = [
        warning("file_processing_state", fault, "it is used as it is; the docs of pm have the table that we make")
        for fault in await examined(tables)
    ]
    return [
        *(weak or [fine("file_processing_state", "is as we make it")]),
        *_servers(found["ftp_server"], found["ftp_path"], environment),
        *_dictionaries(found),
        *_formulas(found["pm_kpi"]),
    ]


def _servers(servers: Rows, paths: Rows, environment: Mapping[str, str]) -> Iterator[Check]:
    if not servers:
        yield warning("ftp_server", "has no server, so no file is looked for", f"{IMPORT}, with ftp_server.csv")
        return
    faults = 0
    for number, system_type, host, port, user_name, password_ref in servers:
        try:
            server = FileServer.of_row(system_type, host, port, user_name, password_ref)
            server.password.reveal(environment)
        except HeadraceError as error:
            faults += 1
            is_missing = isinstance(error, PasswordMissing)
            hint = "set it here, and where services run" if is_missing else error.hint or f"correct it: {IMPORT}"
            yield bad("ftp_server", f"row {number}: {error}", hint)
    if not faults:
        yield fine("ftp_server", f"{len(servers):,} servers, and each has its password")
    if twice := shared_folder(servers, paths):
        yield bad("ftp_server", twice, f"files of one belong to one row; correct it: {IMPORT}")
    known = {row[0] for row in servers}
    for number in sorted(known - {row[1] for row in paths}):
        yield warning(
            "ftp_path", f"server {number} has no folder, and is not looked at", f"{IMPORT}, with ftp_path.csv"
        )
    for row in (row for row in paths if row[1] not in known):
        yield warning("ftp_path", f"row {row[0]} is on server {row[1]}, which is not there", "correct its server_id")


def _dictionaries(found: Mapping[str, Rows]) -> Iterator[Check]:
    if not found["ne"]:
        yield bad("ne", "has no element: every file would be an error", f"{IMPORT}, with ne.csv")
    levels = {str(level) for code, level in found["extra_field_column"] if code == "rat_type"}
    wanted = sum(str(row[1]) in levels for row in found["counter_cat"])
    if not levels:
        hint = "a row (rat_type, LEVEL) says at which level of counter_cat counters are wanted"
        yield bad("extra_field_column", "has no row rat_type, so no counter is wanted", hint)
    elif not wanted:
        known = ", ".join(sorted({str(row[1]) for row in found["counter_cat"]})[:5]) or "none"
        words = f"has no counter at level {', '.join(levels)}; its levels: {known}"
        yield bad("counter_cat", f"{words}; files would have no rows", f"{IMPORT}, with counter_cat.csv")
    elif found["ne"]:
        yield fine("dictionaries", f"{len(found['ne']):,} elements, {wanted:,} counters are wanted")


def _formulas(kpis: Rows) -> Iterator[Check]:
    for name, formula, _unit in kpis:
        try:
            Formula.of(formula)
        except HeadraceError as error:
            yield warning("pm_kpi", f"{name}: {error}", error.hint)
