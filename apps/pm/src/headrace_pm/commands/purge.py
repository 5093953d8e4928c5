"""`headrace pm purge`: rows of files that were moved long ago, shown first and then deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.commands import of
from headrace_pm.commands.opened_tables import on_tables, settings_now

if TYPE_CHECKING:
    from headrace.tables import OpenTables


def register(app: typer.Typer) -> None:
    app.command()(purge)


def purge(
    context: typer.Context,
    older_than: Annotated[
        str | None, typer.Option("--older-than", help="Moved longer ago: 30d, 48h. Else PM_KEEP_DAYS.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; without, they are only counted.")] = False,
) -> int:
    """Count the files that were moved long ago, and with --yes delete their rows from file_processing_state.

    Their counters stay, and so do the files in ClickHouse/Done/; but they can not be redone any more. Services do the
    same by themselves after PM_KEEP_DAYS.
    """
    from headrace.errors import CallerError
    from headrace_pm.operators.periods import length_of
    from headrace_pm.tables.retention import DAY_S

    days = settings_now().keep_days
    if older_than is None and not days:
        raise CallerError("PM_KEEP_DAYS is 0: rows are kept for ever", "say how old they may be: --older-than 30d")
    age_s = days * DAY_S if older_than is None else length_of(older_than, "--older-than").total_seconds()
    if age_s < DAY_S:
        raise CallerError("rows are kept for a day at least", "--older-than 1d or more")

    async def work(tables: OpenTables) -> dict[str, object]:
        from headrace_pm.tables.retention import FileRetention

        retention = FileRetention(tables, age_s)
        found = await retention.preview()
        deleted, is_more = 0, yes
        while is_more:
            some, is_more = await retention.purge()
            deleted += some
        return {"files": found.files, "oldest": found.oldest or None, "deleted": deleted if yes else None}

    found = on_tables(work)
    since = f", the oldest of {found['oldest']} UTC" if found["oldest"] else ""
    ended = f"{found['deleted']:,} were deleted" if yes else "with --yes their rows are deleted"
    words = f"{found['files']:,} files were moved longer ago than that{since}; {ended}"
    of(context).answer(found, lambda console: console.print(words, markup=False))
    return 0
