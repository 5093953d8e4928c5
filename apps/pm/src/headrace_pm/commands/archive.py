"""`headrace pm archive`: what of the archives is old, shown first and then deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import Exit, of
from headrace_pm.commands.opened_tables import on_tables, settings_now

if TYPE_CHECKING:
    from headrace.tables import OpenTables
    from headrace_pm.operators.archive_folders import ArchiveFolder

NAMES_SHOWN = 20


def register(app: typer.Typer) -> None:
    app.command()(archive)


def archive(
    context: typer.Context,
    older_than: Annotated[
        str, typer.Option("--older-than", help="Files last changed longer ago: 30d, 48h; a day at least.")
    ],
    server: Annotated[str | None, typer.Option("--server", help="host_port_user of one server. Else all.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; without, they are only shown.")] = False,
) -> int:
    """Show which files of ClickHouse/Done/ are old, and with --yes delete them from their servers.

    A file that is deleted can not be redone any more. One that has changed since it was shown stays.
    """
    from headrace_pm.operators.periods import length_of

    age = length_of(older_than, "--older-than", "write 30d or 48h; a day at least")

    async def work(tables: OpenTables) -> list[ArchiveFolder]:
        from datetime import UTC, datetime

        from headrace.errors import NotFound
        from headrace_pm.ftp.connections import ServerPools
        from headrace_pm.operators.archive_folders import cleared, previewed
        from headrace_pm.work.network_tables import ServerDirectory

        served = [each for each in await ServerDirectory(tables).read() if server in (None, each.server.key)]
        if not served:
            raise NotFound(f"there is no server {server or ''}".strip(), "headrace pm import DIR, with ftp_server.csv")
        pools = ServerPools(settings_now())
        try:
            found = await previewed(pools, served, age, datetime.now(UTC))
            return await cleared(pools, found) if yes else found
        finally:
            await pools.close()

    found = on_tables(work)
    document = {
        "folders": [_document(each) for each in found],
        "files": sum(len(each.shown.files) for each in found),
        "bytes": sum(each.shown.byte_count for each in found),
        "deleted": sum(len(each.cleared.deleted) for each in found if each.cleared) if yes else None,
    }
    of(context).answer(document, lambda console: console.print(_told(document), markup=False))
    return Exit.UNREACHABLE if any(each.error for each in found) else Exit.OK


def _document(each: ArchiveFolder) -> dict[str, Any]:
    from headrace_pm.ftp.names import shown

    return {
        "server": each.server.key,
        "path": each.folder.path,
        "files": len(each.shown.files),
        "bytes": each.shown.byte_count,
        "kept": each.shown.kept_count,
        "oldest": each.shown.files[0].modified_at.isoformat() if each.shown.files else None,
        "names": [shown(file.path, 200) for file in each.shown.files[:NAMES_SHOWN]],
        "deleted": len(each.cleared.deleted) if each.cleared else None,
        "left": len(each.cleared.left) if each.cleared else None,
        "error": each.error or None,
    }


def _told(document: dict[str, Any]) -> str:
    lines = []
    for each in document["folders"]:
        what = f"{each['files']:,} files, {each['bytes']:,} bytes, since {each['oldest']}" if each["files"] else "none"
        lines.append(f"{each['server']} {each['path']}: {each['error'] or what}; {each['kept']:,} stay")
        lines += [f"  {name}" for name in each["names"]]
        if each["files"] > len(each["names"]):
            lines.append(f"  … and {each['files'] - len(each['names']):,} more")
        if each["left"]:
            lines.append(f"  {each['left']:,} had changed or were gone, and were left")
    if document["deleted"] is None:
        lines.append(f"{document['files']:,} files, {document['bytes']:,} bytes; with --yes they are deleted")
    else:
        lines.append(f"{document['deleted']:,} of {document['files']:,} files were deleted")
    return "\n".join(lines)
