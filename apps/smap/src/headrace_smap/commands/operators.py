"""What operators do to projects: the same code as the routes of the project service, without a service."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from headrace.commands import Exit, of
from headrace.errors import CallerError, NotFound, suppress_healing, writing_to

if TYPE_CHECKING:
    from headrace_smap.project.operations import ProjectOperations

T = TypeVar("T")
Project = Annotated[str, typer.Argument(help="The project's id.")]
LIST_MAX = 200
NAME_CHARS_MAX = 60
PUBLISH_S_MAX = 2.0
_WORDS = "{status}: {processed:,} of {total:,} posts, {errors:,} failed, {percent:.2f} %"


def register(app: typer.Typer) -> None:
    for command in (create, projects, progress, failures, seal, cancel, retry, rerun, delete, export):
        app.command()(command)


def create(
    context: typer.Context,
    keywords: Annotated[list[str], typer.Argument(help="What to look for.")],
    days: Annotated[str, typer.Option("--days", help="FIRST..LAST, such as 2025-01-01..2025-02-01.")],
    target: Annotated[
        list[str] | None,
        typer.Option("--target", help="PLATFORM, URL or PLATFORM=URL of a page or feed; may be repeated."),
    ] = None,
    posts_max: Annotated[int | None, typer.Option("--posts-max", min=1, help="At most so many posts.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="What people call it.")] = None,
    mail: Annotated[list[str] | None, typer.Option("--mail", help="Who is told by mail; may be repeated.")] = None,
    zalo: Annotated[list[str] | None, typer.Option("--zalo", help="Who is told by Zalo; may be repeated.")] = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Made-up posts will do; the services have SMAP_SIMULATED=1.")
    ] = False,
) -> None:
    """Create a project; running services take it from there."""
    session = of(context)

    async def work(desk: ProjectOperations) -> str:
        import uuid_utils
        from pydantic import ValidationError

        from headrace_smap.project.orders import ProjectOrder, understood

        asked: dict[str, Any] = {"keywords": keywords, "date_range": days.split("..")}
        asked["targets"] = [_target(text) for text in target or ()]
        asked |= {key: value for key, value in (("posts_max", posts_max), ("name", name)) if value is not None}
        told = {kind: given for kind, given in (("mail", mail), ("zalo", zalo)) if given}
        asked["receivers"] = told or None
        wishes = replace(desk.wishes, simulated=desk.wishes.simulated or simulated)
        project = f"proj_{uuid_utils.uuid7()}"
        try:
            given = ProjectOrder.model_validate(asked)
            order = understood(given, wishes)
        except ValidationError as wrong:
            raise CallerError("; ".join(map(fault_words, wrong.errors())), "--days 2025-01-01..2025-01-31") from None
        await desk.creator.create(project, order, given.receivers)
        await _published(desk)
        return project

    project = with_desk(work)
    session.answer({"project_id": project}, lambda console: console.print(project))


def fault_words(fault: Mapping[str, Any]) -> str:
    """A fault of an order: where it is, if that is known, and what it is."""
    where, what = ".".join(map(str, fault["loc"])), str(fault["msg"]).removeprefix("Value error, ")
    return f"{where}: {what}" if where else what


def projects(
    context: typer.Context,
    status: Annotated[str | None, typer.Option("--status", help="Only those in this state.")] = None,
) -> None:
    """List projects, the newest first."""
    session = of(context)
    shown = with_desk(lambda desk: desk.reader.list(LIST_MAX, None, status), new=False)

    def show(console: Any) -> None:
        from rich.markup import escape

        from headrace.commands import Column, print_list
        from headrace.pages import plain

        rows = shown["items"]
        seen = [row["progress"] for row in rows]
        marks = ["yes" if row["simulated"] else "no" for row in rows]
        made_up = [Column("simulated", marks)] if "yes" in marks else []
        names = [escape(plain(row["name"] or "", NAME_CHARS_MAX)) for row in rows]
        named = [Column("name", names, folds=True)] if any(names) else []
        columns = [
            Column("project", [row["project_id"] for row in rows]),
            *named,
            Column("status", [row["status"] for row in rows]),
            Column("posts", [f"{each['processed']:,} / {each['total']:,}" for each in seen]),
            *made_up,
            Column("failed", [f"{each['errors']:,}" for each in seen]),
            Column("failed tasks", [f"{row['failed_tasks']:,}" for row in rows], spare=2),
            Column("created", [f"{str(row['created_at'])[:16]}Z" for row in rows], spare=1),
        ]
        print_list(console, columns)

    session.answer(shown, show)


def progress(context: typer.Context, project: Project) -> None:
    """How far a project is, as the services answer it."""
    session = of(context)
    found = with_desk(lambda desk: desk.accountant.progress(project), new=False)
    if found is None:
        raise unknown(project)
    words = _WORDS.format(**found)
    session.answer(found, lambda console: console.print(words))


def failures(context: typer.Context, project: Project) -> None:
    """The posts and the crawl tasks of a project that failed, and why."""
    session = of(context)
    shown = with_desk(lambda desk: desk.reader.failures(project, LIST_MAX), new=False)

    def show(console: Any) -> None:
        from rich.markup import escape

        from headrace.commands import plain_table
        from headrace.pages import plain

        for head, key, rows in (("post", "item", shown["items"]), ("crawl task", "task", shown["tasks"])):
            table = plain_table(head, "reason")
            for row in rows:
                table.add_row(escape(plain(row[key])), escape(plain(row["reason"])))
            if rows:
                console.print(table)
        if not shown["items"] and not shown["tasks"]:
            console.print("nothing failed")

    session.answer(shown, show)


def seal(
    context: typer.Context,
    project: Project,
    total: Annotated[int | None, typer.Option("--total", min=0, help="At so many posts, not at what is known.")] = None,
) -> int:
    """Close a project whose collector never says that it is done.

    The total is what is known unless it is given. If everything has ended, this finishes the project. One that is
    finished already stays as it is.
    """

    async def work(desk: ProjectOperations) -> tuple[bool, dict[str, object] | None]:
        await known_project(desk, project)
        standing = await desk.accountant.seal(project, total)
        return standing is None, await desk.accountant.progress(project)

    ended_before, document = with_desk(work)
    if document is None:
        raise unknown(project)
    words = ("it is finished already, " if ended_before else "") + _WORDS.format(**document)
    of(context).answer(document, lambda console: console.print(words))
    return Exit.OK


def cancel(context: typer.Context, project: Project) -> int:
    """Stop a project at what was found by now."""

    async def work(desk: ProjectOperations) -> bool:
        await known_project(desk, project)
        cancelled = await desk.accountant.cancel(project)
        if cancelled:
            await desk.recrawls.drop(project)
        return cancelled

    done = with_desk(work)
    of(context).answer({"cancelled": done}, lambda console: console.print("cancelled" if done else "it had ended"))
    return Exit.OK if done else Exit.CONFLICT


def retry(context: typer.Context, project: Project) -> None:
    """Try the failed posts of a project again; it stays DONE, and its errors fall."""

    async def work(desk: ProjectOperations) -> int:
        from headrace_smap.envelope import new_id

        await known_project(desk, project)
        count = await desk.retrier.retry(project, new_id())
        await _published(desk)
        return count

    count = with_desk(work)
    of(context).answer({"retried": count}, lambda console: console.print(f"{count:,} posts are tried again"))


def rerun(context: typer.Context, project: Project) -> None:
    """Analyse the stored posts of a project anew, where another model version made the results."""

    async def work(desk: ProjectOperations) -> tuple[int, int]:
        from headrace_smap.analytics.service import rerun as rerun_project
        from headrace_smap.insight.aggregates import Aggregator

        await known_project(desk, project)
        done = await rerun_project(desk.parts, project)
        await Aggregator(desk.parts.database).rebuild(project)
        return done.rewritten, done.kept

    rewritten, kept = with_desk(work)
    document = {"rewritten": rewritten, "kept": kept}
    words = f"{rewritten:,} results are new; {kept:,} could not be made anew and stay as they were"
    of(context).answer(document, lambda console: console.print(words))


def delete(context: typer.Context, project: Project) -> None:
    """Delete a project with its posts, rows and keys."""

    async def work(desk: ProjectOperations) -> bool:
        known = await desk.deleter.delete(project)
        while await desk.deleter.sweep():
            pass
        return known

    if not with_desk(work):
        raise unknown(project)
    of(context).answer({"deleted": project}, lambda console: console.print(f"{project} is deleted"))


def export(
    context: typer.Context,
    project: Project,
    file: Annotated[Path | None, typer.Argument(help="Where to; else standard output.")] = None,
    form: Annotated[str | None, typer.Option("--format", help="csv, xlsx or parquet; else by the file's name.")] = None,
) -> None:
    """Write the results of a project to a file: CSV, XLSX or Parquet."""
    name = form or (file.suffix.lstrip(".").lower() if file and file.suffix else "csv")

    async def work(desk: ProjectOperations) -> int:
        from headrace_smap.project.export import form_of

        await known_project(desk, project)
        pieces, written = form_of(name).pieces(desk.parts.database, project), 0
        with _opened(file) as target:
            async for piece in pieces:
                written += target.write(piece)
        return written

    written = with_desk(work, new=False)
    if file:
        document = {"file": str(file), "bytes": written}
        of(context).answer(document, lambda console: console.print(f"{written:,} bytes in {file}"))


@contextmanager
def _opened(file: Path | None) -> Iterator[IO[bytes]]:
    """The file to write, or standard output."""
    if file is None:
        yield sys.stdout.buffer
        return
    with writing_to(file, "name another file"), file.open("wb") as target:
        yield target


async def known_project(desk: ProjectOperations, project: str) -> None:
    """Only what somebody knows can be worked on: a slip of the pen is no empty project."""
    if await desk.accountant.progress(project) is None:
        raise unknown(project)


async def _published(desk: ProjectOperations) -> None:
    """Publish now what was committed; what cannot be, because a server is away, the project service publishes."""
    with suppress_healing(), suppress(TimeoutError):
        async with asyncio.timeout(PUBLISH_S_MAX):
            await desk.relay.relay()


def unknown(project: str) -> NotFound:
    return NotFound(f"there is no project {project}", "headrace smap projects lists them")


def _target(text: str) -> dict[str, str]:
    platform, _, url = text.partition("=")
    if "/" in platform:
        return {"url": text}
    return {"platform": platform, "url": url} if url else {"platform": platform}


def with_desk(work: Callable[[ProjectOperations], Awaitable[T]], new: bool = True) -> T:
    """Run one piece of work on the parts that the environment names; only with `new` may this begin one."""
    from headrace.services import bare_errors, log_to_stderr
    from headrace_smap.frame import FRAME
    from headrace_smap.parts import open_parts
    from headrace_smap.project.operations import desk_of

    async def whole() -> T:
        async with open_parts(FRAME.load(os.environ), new, checked=False) as parts:
            return await work(desk_of(parts))

    log_to_stderr(logging.ERROR)
    with bare_errors():
        return asyncio.run(whole())
