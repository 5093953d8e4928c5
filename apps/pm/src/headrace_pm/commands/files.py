"""`headrace pm status`, `files` and `redo`: how the files are, which they are, and the same once more."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import Exit, of
from headrace_pm.commands.opened_tables import on_tables, settings_now

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.tables import OpenTables
    from headrace_pm.operators.file_list import ListedRow
    from headrace_pm.tables.redo import RedoPreview, RedoSelection

State = Annotated[str | None, typer.Option("--state", help="PENDING, ERROR, PARTIAL_DONE, MOVED, …")]
ERRORS_SHOWN = 5


class SinkOption(StrEnum):
    """For which sink a file is done again."""

    MYSQL = "mysql"
    KAFKA = "kafka"


def register(app: typer.Typer) -> None:
    app.command()(status)
    app.command()(files)
    app.command()(redo)


def status(context: typer.Context) -> None:
    """How the files are: by state, the oldest of each, what each sink lacks, servers, workers, errors."""
    document = on_tables(_status)
    document["spool"] = _spool(settings_now().spool_dir)
    of(context).answer(document, lambda console: _show_status(console, document))


async def _status(tables: OpenTables) -> dict[str, Any]:
    from headrace_pm.operators.file_list import live_holds
    from headrace_pm.operators.server_list import listed_servers
    from headrace_pm.tables.counts import FileCounts

    counts = FileCounts(tables)
    by_state, oldest = await counts.by_state(), await counts.oldest_s()
    finished = await counts.finished()
    return {
        "states": {state: {"files": count, "oldest_s": oldest.get(state, 0.0)} for state, count in by_state.items()},
        "stuck": await counts.stuck(),
        "sinks": {sink: {"files": lag.files, "oldest_s": lag.oldest_s} for sink, lag in (await counts.lags()).items()},
        "last_10_minutes": {
            "files": finished.files,
            "bytes": finished.byte_count,
            "counters": finished.counters,
            "latency_p50_s": finished.percentile(0.5),
            "latency_p95_s": finished.percentile(0.95),
        },
        "servers": [each.document() for each in await listed_servers(tables)],
        "workers": await live_holds(tables),
        "errors": [
            {"message": each.message, "files": each.files, "last_at": each.last_at.isoformat()}
            for each in await counts.errors(ERRORS_SHOWN)
        ],
    }


def _spool(folder: Path) -> dict[str, Any]:
    """What lies in the spool of this machine; other processes have theirs."""
    sizes = [path.stat().st_size for path in folder.glob("*") if path.is_file()] if folder.is_dir() else []
    return {"folder": str(folder), "files": len(sizes), "bytes": sum(sizes)}


def _show_status(console: Any, document: dict[str, Any]) -> None:
    from rich.markup import escape

    from headrace.commands import Column, print_list

    states = document["states"]
    columns = [
        Column("state", list(states)),
        Column("files", [f"{each['files']:,}" for each in states.values()]),
        Column("oldest", [_age(each["oldest_s"]) for each in states.values()]),
    ]
    print_list(console, columns)
    for sink, lag in document["sinks"].items():
        oldest = f", the oldest for {_age(lag['oldest_s']) or '0 s'}" if lag["files"] else ""
        console.print(f"{sink}: {lag['files']:,} files to come{oldest}")
    lately = document["last_10_minutes"]
    if lately["files"]:
        median, most = _age(lately["latency_p50_s"]), _age(lately["latency_p95_s"])
        console.print(f"last 10 minutes: {lately['files']:,} files, {median or '0 s'} (p50), {most or '0 s'} (p95)")
    console.print(f"stuck for two hours: {document['stuck']:,}; at work: {sum(document['workers'].values()):,} files")
    for each in document["servers"]:
        last = f", the last registered {_moment(each['last_registered_at'])}" if each["last_registered_at"] else ""
        there = "" if each["is_configured"] else "; it is not in ftp_server any more"
        console.print(f"{each['system_type']} {each['server']}: {each['files']:,} files{last}{there}", markup=False)
        for folder in each["folders"]:
            console.print(f"  {folder['path']}: {_looked(folder)}", markup=False)
    for each in document["errors"]:
        console.print(f"[red]{each['files']:,}[/] × {escape(each['message'])}")


def _looked(folder: dict[str, Any]) -> str:
    if folder["error"] is not None:
        before = f"listed last at {_moment(folder['listed_at'])}" if folder["listed_at"] else "never listed"
        return f"FAILS since {_moment(folder['failing_since'])}, {before}: {folder['error']}"
    if folder["listed_at"] is None:
        return "nobody has looked at it yet"
    return f"listed at {_moment(folder['listed_at'])}, {folder['files']:,} files"


def _moment(text: str) -> str:
    """To the second; a day and a time of UTC."""
    return text[:19].replace("T", " ")


def _age(seconds: float | None) -> str:
    if not seconds:
        return ""
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.0f} s"


def files(
    context: typer.Context,
    state: State = None,
    name: Annotated[str | None, typer.Option("--name", help="A pattern of names: 'gnb*.dat'.")] = None,
    error: Annotated[str | None, typer.Option("--error", help="A pattern of messages: 'Unknown NE*'.")] = None,
    server: Annotated[str | None, typer.Option("--server", help="host_port_user of a server.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many, the newest first.")] = 50,
    before: Annotated[int | None, typer.Option("--before", help="Go on below this id: the next page.")] = None,
) -> None:
    """List files with their states, sinks, errors and times."""

    async def work(tables: OpenTables) -> list[ListedRow]:
        from headrace_pm.operators.file_list import FileFilter, listed_files

        await _known_state(tables, state)
        return await listed_files(tables, FileFilter(state, name or None, error or None, server), limit, before)

    found = on_tables(work)
    after = found[-1].id if len(found) == limit else None
    document = {"files": [each.document() for each in found], "next_before": after}
    of(context).answer(document, lambda console: _show_files(console, found, after))


async def _known_state(tables: OpenTables, state: str | None) -> None:
    """A state is one of ours, or one that others gave a file; a misspelt one would find nothing."""
    from headrace.errors import CallerError
    from headrace_pm.tables.counts import FileCounts

    states = await FileCounts(tables).by_state() if state is not None else {}
    if state is not None and state not in states:
        raise CallerError(f"no file is in the state {state}", f"one of {', '.join(states)}")


def _show_files(console: Any, found: Sequence[ListedRow], after: int | None) -> None:
    from rich.markup import escape

    from headrace.commands import Column, print_list

    if not found:
        console.print("no such file")
        return
    columns = [
        Column("id", [str(each.id) for each in found]),
        Column("file", [escape(each.file_name) for each in found]),
        Column("state", [each.state for each in found]),
        Column("sinks", [_sinks(each) for each in found]),
        Column("tries", [f"{each.retry_count or 0}/{each.max_retry or 0}" for each in found]),
        Column("seen", [f"{each.created_at:%m-%d %H:%M:%S}" if each.created_at else "" for each in found], spare=1),
        Column("changed", [f"{each.updated_at:%m-%d %H:%M:%S}" if each.updated_at else "" for each in found], spare=2),
        Column("server", [escape(f"{each.ftp_server_key}{each.ftp_path}") for each in found], spare=3),
        Column("error", [escape(each.error_message or "") for each in found], folds=True),
    ]
    print_list(console, columns)
    if after is not None:
        console.print(f"the next page: --before {after}")


def _sinks(row: ListedRow) -> str:
    done = [name for name, is_done in (("mysql", row.mysql_processed), ("kafka", row.clickhouse_processed)) if is_done]
    return "+".join(done) or "–"


def redo(
    context: typer.Context,
    ids: Annotated[list[int] | None, typer.Argument(metavar="[ID]…", help="Files by their ids.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="A pattern of names: 'gnb*.dat'.")] = None,
    since: Annotated[str | None, typer.Option("--from", help="Files first seen at this time or later.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Files first seen before this time.")] = None,
    state: State = None,
    system: Annotated[str | None, typer.Option("--system", help="5GA, 4GA, ONT.")] = None,
    sink: Annotated[
        list[SinkOption] | None, typer.Option("--sink", help="Only this sink; repeatable. Else both.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, it is only counted.")] = False,
) -> int:
    """Do files once more: as a new attempt of the content they have, also those that were moved to the archive.

    Rows that are there already are replaced by the same ones. What somebody works on at the moment is left out.
    """
    from headrace.errors import CallerError
    from headrace_pm.operators.periods import moment_of
    from headrace_pm.tables.redo import RedoSelection

    if not any((ids, name, since, until, state, system)):
        raise CallerError("which files?", "ids, --name, --from, --to, --state or --system")
    selection = RedoSelection(
        ids or None,
        name,
        moment_of(since, "--from") if since else None,
        moment_of(until, "--to") if until else None,
        state,
        system,
    )
    preview, done = on_tables(lambda tables: _redone(tables, selection, sink or list(SinkOption), yes))
    document = {"files": preview.total, "held": preview.held, "by_state": preview.by_state, "redone": done}
    of(context).answer(document, lambda console: console.print(_told(preview, done)))
    return Exit.OK if preview.total else Exit.NOT_FOUND


async def _redone(
    tables: OpenTables, selection: RedoSelection, sinks: Sequence[SinkOption], yes: bool
) -> tuple[RedoPreview, int | None]:
    from headrace_pm.tables.redo import FileRedo

    await _known_state(tables, selection.state)
    work = FileRedo(tables)
    preview = await work.preview(selection)
    return preview, await work.redo(selection, [each.value for each in sinks]) if yes and preview.total else None


def _told(preview: RedoPreview, done: int | None) -> str:
    states = ", ".join(f"{count:,} {state}" for state, count in preview.by_state.items())
    if not preview.total:
        return "no such file"
    if done is not None:
        return f"{done:,} of {preview.total:,} files wait again ({states})"
    held = f", of which {preview.held:,} are being worked on and would be left out" if preview.held else ""
    return f"{preview.total:,} files ({states}){held}; with --yes they are done once more"
