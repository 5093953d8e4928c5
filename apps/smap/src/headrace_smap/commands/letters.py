"""`headrace smap letters …`: what lies in `analytics.errors`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import command_group, of
from headrace.errors import CallerError
from headrace_smap.commands.operators import with_desk

if TYPE_CHECKING:
    from headrace_smap.letters.error_queue import ErrorLetter, LetterCounts
    from headrace_smap.project.operations import ProjectOperations

Of = Annotated[str | None, typer.Option("--project", help="Only of this project.")]
Stale = Annotated[bool, typer.Option("--stale", help="Only those that are not true any more.")]


def register(app: typer.Typer) -> None:
    letters = command_group("letters", "Letters in analytics.errors: counts, show, purge.")
    for command in (counts, show, purge):
        letters.command()(command)
    app.add_typer(letters)


def counts(context: typer.Context) -> None:
    """How many letters there are, by rule and by project, and how many are stale."""

    async def work(desk: ProjectOperations) -> LetterCounts:
        from headrace_smap.letters.error_queue import open_letters

        async with open_letters(desk.parts) as queue:
            return await queue.counts()

    found = with_desk(work, new=False)

    def show_counts(console: Any) -> None:
        seen = "" if found.seen == found.depth else f", of which the oldest {found.seen:,} were looked at"
        console.print(f"{found.depth:,} letters in analytics.errors{seen}")
        console.print(f"{found.stale:,} stale, {found.unknown:,} of posts that are not counted here")
        for name, by in (("rule", found.rules), ("project", found.projects)):
            for value, count in by.items():
                console.print(f"  {name} {value or '(none)'}: {count:,}", markup=False, highlight=False)

    of(context).answer(asdict(found), show_counts)


def show(
    context: typer.Context,
    project: Of = None,
    stale: Stale = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many.")] = 100,
) -> None:
    """List letters, the oldest first, and why their posts failed. They stay where they are."""
    found = _letters(project, stale)[:limit]

    def table(console: Any) -> None:
        from headrace.commands import plain_table

        rows = plain_table("project", "post", "rule", "reason", "stale")
        for letter in found:
            rows.add_row(letter.project, letter.item, letter.rule, letter.reason, "yes" if letter.stale else "no")
        console.print(rows)

    of(context).answer([asdict(letter) for letter in found], table)


def purge(
    context: typer.Context,
    project: Of = None,
    stale: Stale = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Every letter: needed when nothing else narrows it.")
    ] = False,
) -> None:
    """Take letters out of the queue. Failed posts stay failed: `failures` and `retry` do not need their letters."""
    if not (project or stale or everything):
        raise CallerError("this would take out every letter", "--project, --stale, or --all")

    async def work(desk: ProjectOperations) -> int:
        from headrace_smap.letters.error_queue import open_letters

        async with open_letters(desk.parts) as queue:
            removed = 0
            # The queue is looked at in parts; what is in the hands of another is left to it.
            while chosen := [each for each in await queue.letters(project) if each.stale or not stale]:
                taken = await queue.remove(chosen)
                removed += taken
                if not taken:
                    break
            return removed

    removed = with_desk(work, new=False)
    of(context).answer({"removed": removed}, lambda console: console.print(f"{removed:,} letters are taken out"))


def _letters(project: str | None, stale: bool) -> list[ErrorLetter]:
    async def work(desk: ProjectOperations) -> list[ErrorLetter]:
        from headrace_smap.letters.error_queue import open_letters

        async with open_letters(desk.parts) as queue:
            return [each for each in await queue.letters(project) if each.stale or not stale]

    return with_desk(work, new=False)
