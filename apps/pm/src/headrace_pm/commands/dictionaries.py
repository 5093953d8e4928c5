"""`headrace pm import`, and `pm counters unknown`: what the network has, and what of it is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import command_group, of
from headrace_pm.commands.opened_tables import on_tables

if TYPE_CHECKING:
    from headrace.tables import OpenTables
    from headrace_pm.operators.dictionary_import import TableChange
    from headrace_pm.operators.unknown_counters import UnknownCounter

SHOWN_MAX = 10
HOW_TO_WIDEN = "To take one in: a row in counter_cat at level {level} (headrace pm import), then headrace pm redo"


def register(app: typer.Typer) -> None:
    app.command("import")(import_dictionaries)
    counters = command_group("counters", "Counters that files have.")
    counters.command("unknown")(unknown)
    app.add_typer(counters)


def import_dictionaries(
    context: typer.Context,
    folder: Annotated[Path | None, typer.Argument(metavar="DIR", help="Where the CSV files are.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove rows that a file does not have.")] = False,
    history: Annotated[bool, typer.Option("--history", help="Show what was imported before.")] = False,
) -> None:
    """Bring servers, folders, dictionaries and KPIs from CSV files into their tables.

    ftp_server.csv, ftp_path.csv, ne.csv, counter_cat.csv, extra_field_column.csv, node_function.csv, pm_kpi.csv: each
    is optional, and has the columns of its table. Rows are added and changed; the same import again changes nothing. A
    password is never in a file: password_ref is env:NAME or file:PATH. Files that waited for an element go on.
    """
    from headrace.errors import CallerError

    if history:
        _show_history(context)
        return
    if folder is None:
        raise CallerError("which directory?", "headrace pm import DIR")
    source = folder

    async def work(tables: OpenTables) -> dict[str, Any]:
        from datetime import UTC, datetime

        from headrace_pm.operators.dictionary_import import DictionaryImport
        from headrace_pm.tables.recovery import FileRecovery

        importing = DictionaryImport(tables)
        changes = await importing.preview(source, prune)
        released = 0
        if not dry_run:
            await importing.apply(changes, str(source.absolute()), datetime.now(UTC))
            released = (await FileRecovery(tables).sweep()).elements
        return _document(changes, dry_run, released)

    document = on_tables(work, create=not dry_run)
    of(context).answer(document, lambda console: console.print(_told(document), markup=False))


def _document(changes: Sequence[TableChange], dry_run: bool, released: int) -> dict[str, Any]:
    tables = {
        change.table.name: {
            "added": len(change.added),
            "changed": len(change.changed),
            "removed": len(change.removed),
            "rows": len(change.result),
            "examples": [
                *(f"+ {', '.join(cells)}" for cells in change.added[:SHOWN_MAX]),
                *(f"~ {', '.join(cells)}" for cells in change.changed[:SHOWN_MAX]),
                *(f"- {', '.join(key)}" for key in change.removed[:SHOWN_MAX]),
            ],
        }
        for change in changes
    }
    return {"dry_run": dry_run, "tables": tables, "files_released": released}


def _told(document: dict[str, Any]) -> str:
    lines = []
    for name, facts in document["tables"].items():
        lines.append(f"{name}: +{facts['added']:,} ~{facts['changed']:,} -{facts['removed']:,}, {facts['rows']:,} rows")
        lines += [f"  {example}" for example in facts["examples"]]
        if rest := facts["added"] + facts["changed"] + facts["removed"] - len(facts["examples"]):
            lines.append(f"  … and {rest:,} more")
    if document["files_released"]:
        lines.append(f"{document['files_released']:,} files that waited for an element go on")
    if document["dry_run"]:
        lines.append("nothing was changed: the same command without --dry-run does it")
    return "\n".join(lines)


def _show_history(context: typer.Context) -> None:
    async def work(tables: OpenTables) -> list[dict[str, Any]]:
        from headrace_pm.operators.dictionary_import import DictionaryImport

        return await DictionaryImport(tables).history()

    found = on_tables(work)
    document = [{**each, "imported_at": each["imported_at"].isoformat()} for each in found]

    def show(console: Any) -> None:
        from headrace.commands import Column, print_list

        names = ("imported_at", "table", "added", "changed", "removed", "digest", "source")
        spare = {"source": 2, "digest": 1}
        columns = [Column(name, [str(each[name]) for each in document], spare=spare.get(name, 0)) for name in names]
        print_list(console, columns)

    of(context).answer(document, show)


def unknown(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many, the most frequent first.")] = 50,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write them as rows of counter_cat.csv.")
    ] = None,
    group: Annotated[str, typer.Option("--group", help="The group_code of those rows.")] = "NEW",
) -> None:
    """Counters that files have and no dictionary wants, with how often, since when, and in which file last.

    To take some in: --csv FILE writes rows for counter_cat.csv, of which you keep what you want; `headrace pm import`
    brings them in, and `headrace pm redo` reads earlier files once more.
    """

    async def work(tables: OpenTables) -> tuple[list[UnknownCounter], str | None]:
        from headrace_pm.operators.unknown_counters import counter_level, unknown_counters

        return await unknown_counters(tables, limit), await counter_level(tables)

    found, level = on_tables(work)
    if csv is not None:
        _write_rows(csv, found, level, group)
    document = {
        "level": level,
        "counters": [
            {
                "counter_id": each.counter_id,
                "seen": each.seen,
                "first_seen_at": each.first_seen_at.isoformat(),
                "last_seen_at": each.last_seen_at.isoformat(),
                "last_file": each.last_file,
            }
            for each in found
        ],
    }
    of(context).answer(document, lambda console: _show_unknown(console, found, level))


def _write_rows(path: Path, found: Sequence[UnknownCounter], level: str | None, group: str) -> None:
    import csv

    from headrace.errors import CallerError, writing_to
    from headrace_pm.counters.dictionary_files import COLUMNS

    if level is None:
        raise CallerError(
            "no counter has a level: extra_field_column has no row rat_type", "import extra_field_column.csv first"
        )
    with writing_to(path, "name another file"), path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS["counter_cat"])
        writer.writerows((each.counter_id, level, group) for each in found)


def _show_unknown(console: Any, found: Sequence[UnknownCounter], level: str | None) -> None:
    from rich.markup import escape

    from headrace.commands import Column, print_list

    if not found:
        console.print("every counter that files have is wanted")
        return
    columns = [
        Column("counter", [str(each.counter_id) for each in found]),
        Column("values", [f"{each.seen:,}" for each in found]),
        Column("first seen", [f"{each.first_seen_at:%Y-%m-%d %H:%M}" for each in found], spare=1),
        Column("last seen", [f"{each.last_seen_at:%Y-%m-%d %H:%M}" for each in found]),
        Column("last file", [escape(each.last_file) for each in found], spare=2),
    ]
    print_list(console, columns)
    console.print(HOW_TO_WIDEN.format(level=level or "of extra_field_column's rat_type"), markup=False)
