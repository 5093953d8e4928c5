"""`headrace pm compare`: what production and shadow do not have in common; and `cutover`, from the one to the other."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import Exit, of

if TYPE_CHECKING:
    from rich.console import Console

    from headrace_pm.cutover.changeover import Changeover
    from headrace_pm.shadow.differences import Compared, CounterDifference, RowDifference

FORMATS = ["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"]


def register(app: typer.Typer) -> None:
    app.command()(compare)
    app.command()(cutover)


def compare(
    context: typer.Context,
    begin: Annotated[
        datetime | None, typer.Option("--from", formats=FORMATS, metavar="TIME", help="From this record_time on, UTC.")
    ] = None,
    end: Annotated[
        datetime | None, typer.Option("--to", formats=FORMATS, metavar="TIME", help="Up to before this one, UTC.")
    ] = None,
    ne: Annotated[int | None, typer.Option("--ne", metavar="ID", help="Only this element.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Show so many counters that differ.")] = 100,
    without_extra: Annotated[
        bool,
        typer.Option("--without-extra-field", help="Leave out what extra_field says: others may write it otherwise."),
    ] = False,
    parallel: Annotated[int, typer.Option(min=2, max=32, help="Connections to the database.")] = 4,
) -> int:
    """Compare pm_counter_data with pm_shadow_counter_data in the database of PM_MYSQL_DSN.

    By count and digest for each element and time, then by counter, then row by row: missing in the shadow, extra there,
    or different. Exit code 0 if they are equal, 1 if not. What is still being written differs: name --to.
    """
    import asyncio

    from headrace_pm.shadow.comparison import FIRST, LAST, CompareScope, compared
    from headrace_pm.shadow.settings import database_url

    scope = CompareScope(_utc(begin) or FIRST, _utc(end) or LAST, ne, not without_extra, limit)
    found = asyncio.run(compared(database_url(os.environ), scope, parallel))
    of(context).answer(_document(found), lambda console: _show(console, found))
    return Exit.OK if found.equal else Exit.FAILED


def _utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment is not None else None


def _document(found: Compared) -> dict[str, Any]:
    return {
        "equal": found.equal,
        "production_rows": found.production_rows,
        "shadow_rows": found.shadow_rows,
        "differences": [_difference(each) for each in found.differences],
        "more": found.places_left,
        "seconds": round(found.seconds, 3),
    }


def _difference(each: CounterDifference) -> dict[str, Any]:
    return {
        "ne_id": each.place.ne_id,
        "record_time": _time(each.place.record_time),
        "counter_id": each.place.counter_id,
        **{kind: each.count(kind) for kind in ("missing", "extra", "different")},
        "rows": [
            {"kind": row.kind, "key": dict(row.key), "production": row.production, "shadow": row.shadow}
            for row in each.rows
        ],
    }


def _time(moment: datetime) -> str:
    text = moment.astimezone(UTC).replace(tzinfo=None)
    return text.isoformat(" ", "milliseconds" if text.microsecond else "seconds")


def _show(console: Console, found: Compared) -> None:
    for each in found.differences:
        where = f"NE {each.place.ne_id}  {_time(each.place.record_time)}  counter {each.place.counter_id}"
        for row in each.rows:
            console.print(f"{where}  {row.kind}: {_words(row)}", markup=False)
    if found.places_left:
        console.print(f"and {found.places_left:,} more places (an element at a time) that differ; --limit shows more")
    rows = f"{found.production_rows:,} rows in production, {found.shadow_rows:,} in the shadow"
    console.print(f"{'equal' if found.equal else 'different'}: {rows}, compared in {found.seconds:.1f} s")


def _words(row: RowDifference) -> str:
    key = ", ".join(f"{name} {value!r}" for name, value in row.key.items())
    if row.production is None or row.shadow is None:
        return key
    changes = (f"{name} {row.production[name]!r} became {row.shadow[name]!r}" for name in row.production)
    return f"{'; '.join(changes)} ({key})"


def cutover(
    context: typer.Context,
    begin: Annotated[
        datetime | None,
        typer.Option(
            "--from",
            formats=FORMATS,
            metavar="TIME",
            help="Compare record_time from here on; else since there is a shadow.",
        ),
    ] = None,
    end: Annotated[
        datetime | None, typer.Option("--to", formats=FORMATS, metavar="TIME", help="Up to before this; else all.")
    ] = None,
    quiet_minutes: Annotated[
        float, typer.Option(min=0.0, help="For so long the old system must have moved nothing.")
    ] = 10.0,
    without_extra: Annotated[bool, typer.Option("--without-extra-field", help="As of `compare`.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check, and change nothing.")] = False,
    rollback: Annotated[bool, typer.Option("--rollback", help="Go back: the old system is production again.")] = False,
) -> int:
    """Take over from the old system, if every check is good. Exit code 1 if one is not, and nothing is changed.

    The checks: the shadow has seen every file of the period and finished all of them, the old system has moved nothing
    for some time and left nothing in ClickHouse/, and the rows of both are the same. Changing over adds one row to
    pm_cutover; from then on `headrace pm all` runs on this database, and takes what is in the folders. --rollback adds
    another: `all` ends by itself within seconds, and the old system may be started. No row and no file is deleted.
    """
    import asyncio

    from headrace_pm.cutover.changeover import changed_over, rolled_back
    from headrace_pm.cutover.checks import CutoverPlan
    from headrace_pm.frame import FRAME
    from headrace_pm.shadow.comparison import LAST

    settings = FRAME.load(os.environ)
    if rollback:
        words = asyncio.run(rolled_back(settings))
        of(context).answer({"mode": "shadow", "words": words}, lambda console: console.print(words, markup=False))
        return Exit.OK
    plan = CutoverPlan(_utc(begin), _utc(end) or LAST, 60 * quiet_minutes, not without_extra)
    found = asyncio.run(changed_over(settings, plan, check))
    document = {
        "checks": [{"name": each.name, "state": str(each.state), "found": each.found} for each in found.checks],
        "may_change": found.may_change,
        "changed": found.changed,
    }
    of(context).answer(document, lambda console: _show_checks(console, found))
    return Exit.OK if found.may_change else Exit.FAILED


def _show_checks(console: Console, found: Changeover) -> None:
    for each in found.checks:
        hint = f" ({each.hint})" if each.hint else ""
        console.print(f"{each.state!s:8} {each.name}: {each.found}{hint}", markup=False)
    console.print(found.words, markup=False)
