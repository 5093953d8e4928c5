"""`headrace scheduler audit …`: who did what, and who was refused."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from headrace.commands import Exit, command_group, of

ROWS_MAX = 1_000


def register(app: typer.Typer) -> None:
    audit = command_group("audit", "List what was done by API keys and by hand, and what was refused.")
    audit.command("list")(list_audit)
    app.add_typer(audit)


def list_audit(
    context: typer.Context,
    day: Annotated[str | None, typer.Option("--day", help="A day as 2026-01-31, in UTC; else today.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most rows.")] = ROWS_MAX,
) -> int:
    """List what was done on a day, the earliest first; with --tenant what was done for that one. Without API keys only
    acts by hand are written down."""
    import asyncio

    found, is_all = asyncio.run(_read(_day(day), of(context).flags.get("tenant") or "", limit))
    lines = [*map(_line, found), *([] if is_all else [f"there are more: --limit {2 * limit}, or another --day"])]
    # What was asked for is printed as it is, and not as markup.
    of(context).answer(
        {"events": found, "is_all": is_all}, lambda console: console.print("\n".join(lines), markup=False)
    )
    return Exit.OK


async def _read(day: str, tenant: str, limit: int) -> tuple[list[dict[str, Any]], bool]:
    from headrace_scheduler.api.audit_routes import audit_document
    from headrace_scheduler.frame import FRAME
    from headrace_scheduler.parts import open_tables
    from headrace_scheduler.tables.audit_events import AuditEvents

    async with open_tables(FRAME.load(os.environ)) as opened:
        events, after = await AuditEvents(opened.tables).page(day, tenant, None, limit)
        return [audit_document(event) for event in events], after is None


def _day(text: str | None) -> str:
    from datetime import UTC, date, datetime

    from headrace.errors import CallerError

    try:
        return (date.fromisoformat(text) if text else datetime.now(UTC).date()).isoformat()
    except ValueError:
        raise CallerError(f"--day {text} is no day", "write --day 2026-01-31") from None


def _line(document: dict[str, Any]) -> str:
    words = ("at", "actor", "tenant", "action", "subject", "detail")
    return "  ".join(str(document[word] or "-") for word in words)
