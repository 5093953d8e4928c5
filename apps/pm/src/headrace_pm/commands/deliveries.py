"""`headrace pm gaps` and `report`: what came, what is missing, and how it went."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import of
from headrace_pm.commands.opened_tables import on_tables
from headrace_pm.commands.time_options import Duration, Elements, From, Period, To

if TYPE_CHECKING:
    from headrace.tables import OpenTables
    from headrace_pm.operators.delivery_gaps import ElementDelivery, GapReport
    from headrace_pm.operators.periods import PeriodSpan
    from headrace_pm.report.pipeline_report import PipelineReport

GAPS_SHOWN = 3


class LanguageOption(StrEnum):
    """In which language a page is."""

    ENGLISH = "en"
    VIETNAMESE = "vi"


def register(app: typer.Typer) -> None:
    app.command()(gaps)
    app.command()(report)


def gaps(
    context: typer.Context,
    since: From = None,
    until: To = None,
    period: Period = "15m",
    elements: Elements = None,
    duration: Duration = None,
    limit: Annotated[int, typer.Option(min=1, help="How many elements to list, the worst first.")] = 50,
) -> None:
    """Which element did not deliver which period: counters against the elements of the table `ne`.

    Without --to the period that is not over yet, and the one before, whose files may still be on their way, are not
    asked for.
    """
    span = _span(since, until, period)

    async def work(tables: OpenTables) -> GapReport:
        from headrace_pm.operators.delivery_gaps import gap_report

        return await gap_report(tables, span, elements or (), duration)

    found = on_tables(work)
    holey = [each for each in found.elements if each.missing]
    document = {
        "from": found.span.first.isoformat(),
        "to": found.span.end.isoformat(),
        "period_s": found.span.period_s,
        "elements": len(found.elements),
        "periods": len(found.span),
        "missing": found.missing,
        "gaps": [_gap_document(each) for each in holey[:limit]],
    }
    of(context).answer(document, lambda console: _show_gaps(console, found, holey, limit))


def _span(since: str | None, until: str | None, period: str) -> PeriodSpan:
    from datetime import UTC, datetime, timedelta

    from headrace_pm.operators.periods import PeriodSpan, between, floored, period_of

    length, now = period_of(period), datetime.now(UTC)
    # A file comes after its period, and takes its time.
    last = floored(now, length) - timedelta(seconds=length)
    first, end = between(since, until, last, timedelta(days=1))
    return PeriodSpan.around(first, end, length).over_at(now)


def _gap_document(each: ElementDelivery) -> dict[str, Any]:
    runs = [{"from": run.first.isoformat(), "to": run.end.isoformat(), "periods": run.count} for run in each.gaps]
    return {"ne": each.element.name, "ne_id": each.element.ne_id, "missing": each.missing, "gaps": runs}


def _show_gaps(console: Any, found: GapReport, holey: Sequence[ElementDelivery], limit: int) -> None:
    from rich.markup import escape

    from headrace.commands import Column, print_list

    shown = holey[:limit]
    if shown:
        columns = [
            Column("element", [escape(each.element.name) for each in shown]),
            Column("missing", [f"{each.missing:,} of {len(found.span):,}" for each in shown]),
            Column("periods", [_runs(each) for each in shown], folds=True),
        ]
        print_list(console, columns)
    if len(holey) > limit:
        console.print(f"… and {len(holey) - limit:,} further elements (--limit)")
    span = f"{found.span.first:%Y-%m-%d %H:%M} to {found.span.end:%Y-%m-%d %H:%M} UTC"
    console.print(f"{span}: {found.missing:,} of {found.expected:,} periods are missing, of {len(holey):,} elements")


def _runs(each: ElementDelivery) -> str:
    """From when to when, the last moment left out; a single period is shown like many."""
    shown = [
        f"{run.first:%m-%d %H:%M} to {run.end:{'%H:%M' if run.first.date() == run.end.date() else '%m-%d %H:%M'}}"
        for run in each.gaps[:GAPS_SHOWN]
    ]
    rest = len(each.gaps) - len(shown)
    return ", ".join([*shown, f"and {rest} more"] if rest else shown)


def report(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("pm-report.html"),
    since: From = None,
    until: To = None,
    period: Period = "15m",
    language: Annotated[LanguageOption, typer.Option("--language", help="The language of the page.")] = (
        LanguageOption.ENGLISH
    ),
) -> None:
    """Write a page with files by state, latency, missing periods and errors; it needs nothing else to be shown."""
    from headrace.errors import writing_to
    from headrace.pages import save
    from headrace_pm.report.pipeline_page import page
    from headrace_pm.report.words import TEXTS

    periods = _span(since, until, period)
    found = on_tables(lambda tables: _pipeline_report(tables, periods, is_until_now=until is None))
    with writing_to(out, "name another by --out"):
        save(page(found, TEXTS.of(language.value)), out)
    document = {
        "page": str(out),
        "from": found.steps.first.isoformat(),
        "to": found.steps.end.isoformat(),
        "files": found.seen,
        "states": dict(found.now),
        "latency_s": {
            sink: {"files": times.count, **{f"p{share}": times.percentile(share) for share in (50, 95, 99)}}
            for sink, times in found.latency.items()
        },
        "missing": found.gaps.missing if found.gaps else None,
        "errors": [{"message": each.fault, "state": each.state, "files": each.count} for each in found.errors],
    }
    missing = found.gaps_missing or f"{document['missing']:,} periods missing"
    told = f"{out}: {found.seen:,} files, {found.now['ERROR']:,} errors, {missing}"
    of(context).answer(document, lambda console: console.print(told, markup=False))


async def _pipeline_report(tables: OpenTables, periods: PeriodSpan, is_until_now: bool) -> PipelineReport:
    from datetime import UTC, datetime

    from headrace_pm.report.pipeline_report import pipeline_report

    now = datetime.now(UTC)
    # Files are there before their period can be missed.
    return await pipeline_report(tables, periods.first, now if is_until_now else periods.end, periods, now)
