"""`headrace smap report`: a project's report as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.commands import of
from headrace.errors import CallerError, writing_to
from headrace_smap.commands.operators import Project, unknown, with_desk

if TYPE_CHECKING:
    from headrace.pages import Document
    from headrace_smap.project.operations import ProjectOperations


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    context: typer.Context,
    project: Project,
    file: Annotated[Path | None, typer.Argument(help="Where to; else report-PROJECT.html.")] = None,
    language: Annotated[str, typer.Option(help="The language of the page: en or vi.")] = "en",
    beside: Annotated[
        list[str] | None, typer.Option(help="A project to compare with; may be repeated, three at the most.")
    ] = None,
) -> None:
    """Write the report of a project: one page that needs nothing else, with its posts, up to 5,000 of them."""
    from headrace.pages import save
    from headrace_smap.insight.report.reader import ReportReader, file_name
    from headrace_smap.insight.report.words import TEXTS

    if language not in TEXTS.languages:
        raise CallerError(f"there is no page in {language!r}", f"--language {' or '.join(TEXTS.languages)}")

    async def work(desk: ProjectOperations) -> Document | None:
        reader = ReportReader(desk.parts.database, desk.parts.settings.timezone)
        return await reader.file(project, {"language": language}, beside or ())

    page, path = with_desk(work, new=False), file or Path(file_name(project))
    if page is None:
        raise unknown(project)
    with writing_to(path, "name another file"):
        save(page, path)
    written = path.stat().st_size
    of(context).answer(
        {"file": str(path), "bytes": written}, lambda console: console.print(f"{written:,} bytes in {path}")
    )
