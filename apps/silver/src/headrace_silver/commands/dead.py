"""`headrace silver dead …`: letters of tasks that died, and the way back."""

from __future__ import annotations

import getpass
import json
import os
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import Exit, command_group, of
from headrace.errors import CallerError
from headrace_silver.commands.opened_stores import opened_store

if TYPE_CHECKING:
    from headrace_silver.queue.dead_letters import Letter, LetterCount, LetterFilter, Redriven

app = command_group("dead", "Dead letters: counts, list, show, export, redrive, close, reopen.")

Reason = Annotated[str | None, typer.Option(help="Only sanity_fail, unknown_task_type or exception.")]
Rule = Annotated[str | None, typer.Option(help="Only with this rule.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help="Only from this moment on; without a zone it is UTC.")]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only before this moment.")]
Ids = Annotated[list[int] | None, typer.Option("--id", help="Only this letter; repeatable.")]
Every = Annotated[bool, typer.Option("--all", help="Also letters that were redriven, closed or have a later one.")]
Yes = Annotated[bool, typer.Option("--yes", help="Every letter: needed when nothing else narrows it.")]
Limit = Annotated[int, typer.Option(min=1, help="At most this many.")]


def register(tree: typer.Typer) -> None:
    tree.add_typer(app)


@app.command()
def counts(
    context: typer.Context,
    reason: Reason = None,
    rule: Rule = None,
    since: Since = None,
    until: Until = None,
    every: Every = False,
) -> None:
    """Count open letters by reason and rule."""
    from headrace_silver.queue import dead_letters

    session = of(context)
    with opened_store(session) as store:
        found = dead_letters.counts(store, _which(reason, rule, since, until, every=every))
    session.answer([_count_document(each) for each in found], lambda console: _show_counts(console, found))


@app.command("list")
def list_letters(
    context: typer.Context,
    reason: Reason = None,
    rule: Rule = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    every: Every = False,
    limit: Limit = 100,
) -> None:
    """List open letters, newest first."""
    from headrace_silver.queue import dead_letters

    session = of(context)
    with opened_store(session) as store:
        found = list(dead_letters.newest(store, _which(reason, rule, since, until, ids, every), limit))
    session.answer(
        [dead_letters.letter_document(each) for each in found], lambda console: _show_letters(console, found)
    )


@app.command()
def show(context: typer.Context, letter: Annotated[int, typer.Argument(metavar="ID", help="Which letter.")]) -> None:
    """Show one letter in full, with its rule and what its task is now."""
    from headrace_silver.queue import dead_letters

    session = of(context)
    with opened_store(session) as store:
        found, task_type, status = dead_letters.one(store, letter)
    document = {**dead_letters.letter_document(found), "task_type": task_type or found.kind, "status": status}
    session.answer(document, lambda console: _show_letter(console, document))


@app.command()
def export(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Ends with .jsonl or .csv, also .gz; - is stdout.")],
    reason: Reason = None,
    rule: Rule = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    every: Every = False,
) -> None:
    """Write open letters with their payloads to a file.

    A file of JSON lines can be corrected by hand and put again with `headrace silver put`.
    """
    from headrace_silver.queue import dead_letters
    from headrace_silver.queue.letter_files import write_letters

    session = of(context)
    with opened_store(session) as store:
        count = write_letters(file, dead_letters.newest(store, _which(reason, rule, since, until, ids, every)))
    if file != "-":
        session.answer({"file": file, "letters": count}, lambda console: console.print(f"{count:,} letters in {file}"))


@app.command()
def redrive(
    context: typer.Context,
    reason: Reason = None,
    rule: Rule = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    limit: Limit = 1_000_000,
    yes: Yes = False,
) -> int:
    """Make the tasks of open letters ready again, oldest first, in one transaction.

    Letters that were redriven are not redriven again, and closed ones only after they were reopened. Exit code 1 if a
    letter could not be helped.
    """
    from headrace_silver.queue import dead_letters

    session = of(context)
    which = _which(reason, rule, since, until, ids)
    _check_narrows(which, yes)
    with opened_store(session) as store:
        done = dead_letters.redrive(store, which, limit)
    left = [{"letter": letter, "why": why} for letter, why in done.left]
    document = {"redriven": done.ready + done.anew, "anew": done.anew, "left": done.left_count, "left_first": left}
    session.answer(document, lambda console: _show_redriven(console, done))
    return Exit.FAILED if done.left_count else Exit.OK


@app.command()
def close(
    context: typer.Context,
    note: Annotated[str, typer.Option(help="Why nothing more is to be done; kept and shown.")],
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who closes them; else who is logged in.")] = None,
    reason: Reason = None,
    rule: Rule = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    limit: Limit = 1_000_000,
    yes: Yes = False,
) -> int:
    """Close open letters with a note: nothing more is to be done about them.

    Their tasks stay dead. A closed letter is neither counted nor redriven, unless it is reopened; the report shows the
    note. Exit code 1 if a letter that was named by --id is not open.
    """
    from headrace_silver.queue import dead_letters

    session = of(context)
    which = _which(reason, rule, since, until, ids)
    _check_narrows(which, yes)
    with opened_store(session) as store:
        closed, left = dead_letters.close(store, which, dead_letters.LetterNote(note, by or _who()), limit)
    document = {"closed": closed, "left": [{"letter": letter, "why": why} for letter, why in left]}
    session.answer(document, lambda console: _show_closed(console, closed, left))
    return Exit.FAILED if left else Exit.OK


@app.command()
def reopen(
    context: typer.Context, letters: Annotated[list[int], typer.Argument(metavar="ID…", help="Which letters.")]
) -> int:
    """Take back that letters were closed; their notes are gone.

    Exit code 1 if one of them was not closed.
    """
    from headrace_silver.queue import dead_letters

    session = of(context)
    with opened_store(session) as store:
        reopened = dead_letters.reopen(store, letters)
    left = sorted(set(letters) - set(reopened))

    def show(console: Any) -> None:
        console.print(f"{len(reopened):,} reopened")
        for letter in left:
            console.print(f"letter {letter} was not closed")

    session.answer({"reopened": reopened, "left": left}, show)
    return Exit.FAILED if left else Exit.OK


def _check_narrows(which: LetterFilter, yes: bool) -> None:
    if not which.narrows and not yes:
        # A verb without a filter is more often a slip than a wish.
        raise CallerError("nothing narrows down which letters", "name --rule, --reason, --since, … or say --yes")


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container's user may have no name.
        return f"user {os.getuid()}"


def _which(
    reason: str | None,
    rule: str | None,
    since: str | None,
    until: str | None,
    ids: list[int] | None = None,
    every: bool = False,
) -> LetterFilter:
    from headrace_silver.queue.dead_letters import LetterFilter

    return LetterFilter(reason, rule, _moment("--since", since), _moment("--until", until), tuple(ids or ()), every)


def _moment(option: str, text: str | None) -> datetime | None:
    from headrace_silver.records.payload_values import time_of

    if text is None:
        return None
    found = time_of(text)
    if found is None:
        raise CallerError(f"{option} {text} is not a time", f"{option} 2026-01-30T09:00:00+07:00, or a day")
    return found


def _count_document(each: LetterCount) -> dict[str, Any]:
    first, last = each.first_at.isoformat(), each.last_at.isoformat()
    return {"reason": each.reason, "rule_id": each.rule_id, "count": each.count, "first_at": first, "last_at": last}


def _show_counts(console: Any, found: list[LetterCount]) -> None:
    from rich.markup import escape

    from headrace.commands import plain_table

    table = plain_table("reason", "rule", "letters", "first", "last")
    for each in found:
        first, last = (at.isoformat(timespec="seconds") for at in (each.first_at, each.last_at))
        table.add_row(escape(each.reason), escape(each.rule_id or ""), f"{each.count:,}", first, last)
    console.print(table)


def _show_letters(console: Any, found: list[Letter]) -> None:
    from rich.markup import escape

    from headrace.commands import Column, print_list

    columns = [
        Column("letter", [str(each.id) for each in found]),
        Column("task", [str(each.task_id or "") for each in found], spare=2),
        Column("reason", [escape(each.reason) for each in found]),
        Column("rule", [escape(each.rule_id or "") for each in found]),
        Column("died", [each.created_at.isoformat(timespec="seconds") for each in found], spare=1),
        Column("error", [escape(each.error_msg or "") for each in found], folds=True),
    ]
    print_list(console, columns)


def _show_letter(console: Any, document: dict[str, Any]) -> None:
    from headrace_silver.records.rules import RULES

    for name, value in document.items():
        if name != "payload" and value is not None:
            console.print(f"{name:12} {value}", markup=False)
    sentence = next((rule.sentence for rule in RULES if rule.id == document["rule_id"]), None)
    if sentence:
        console.print(f"{'rule':12} {sentence}", markup=False)
    console.print(json.dumps(document["payload"], ensure_ascii=False, indent=2), markup=False)


def _show_closed(console: Any, closed: int, left: list[tuple[int, str]]) -> None:
    console.print(f"{closed:,} closed")
    for letter, why in left:
        console.print(f"letter {letter} is not open: {why}", markup=False)


def _show_redriven(console: Any, done: Redriven) -> None:
    anew = f", {done.anew:,} of them made anew because their task was gone" if done.anew else ""
    console.print(f"{done.ready + done.anew:,} redriven{anew}")
    for letter, why in done.left:
        console.print(f"letter {letter} stays: {why}", markup=False)
    if done.left_count > len(done.left):
        console.print(f"… and {done.left_count - len(done.left):,} more stay")
