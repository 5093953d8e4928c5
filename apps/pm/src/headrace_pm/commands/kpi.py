"""`headrace pm kpi`: formulas over counters, and their values by hour and day."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import command_group, of
from headrace_pm.commands.opened_tables import on_tables
from headrace_pm.commands.time_options import Duration, Elements, From, To

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from headrace.tables import OpenTables
    from headrace_pm.operators.kpi.kpi_series import Kpi, KpiPoint, KpiQuestion

COUNTERS_SHOWN = 3


class StepOption(StrEnum):
    """How long one value of a KPI is."""

    HOUR = "hour"
    DAY = "day"


def register(app: typer.Typer) -> None:
    kpi = command_group("kpi", "Formulas over counters, and their values.")
    kpi.command("list")(kpi_formulas)
    kpi.command("show")(kpi_show)
    app.add_typer(kpi)


def kpi_formulas(context: typer.Context) -> None:
    """List the formulas; they are rows of pm_kpi, and `headrace pm import` brings them from pm_kpi.csv."""

    async def work(tables: OpenTables) -> list[tuple[str, str, str]]:
        from headrace_pm.operators.kpi.kpi_series import kpi_list

        return await kpi_list(tables)

    found = on_tables(work)
    document = [dict(zip(("name", "formula", "unit"), row, strict=True)) for row in found]

    def show(console: Any) -> None:
        from rich.markup import escape

        from headrace.commands import Column, print_list

        names, formulas, units = ([escape(row[place]) for row in found] for place in range(3))
        print_list(console, [Column("name", names), Column("formula", formulas, folds=True), Column("unit", units)])

    of(context).answer(document, show)


def kpi_show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The KPI.")],
    by: Annotated[StepOption, typer.Option("--by", help="How long one value is.")] = StepOption.HOUR,
    since: From = None,
    until: To = None,
    elements: Elements = None,
    each: Annotated[bool, typer.Option("--each", help="A value for each element, and not one for all.")] = False,
    zone: Annotated[str, typer.Option("--zone", help="Hours and days of this zone: Asia/Ho_Chi_Minh.")] = "UTC",
    duration: Duration = None,
) -> None:
    """The values of a KPI by hour or day.

    A value is missing if a counter has none in that time, and if it would be divided by zero; neither is 0, and both
    are counted.
    """

    async def work(tables: OpenTables) -> tuple[Kpi, list[KpiPoint]]:
        from headrace_pm.operators.kpi.kpi_series import kpi_named, kpi_points

        kpi = await kpi_named(tables, name)
        return kpi, await kpi_points(tables, kpi, asked)

    asked = _question(by, (since, until), zone, elements or (), each, duration)
    kpi, points = on_tables(work)
    document = {
        "name": kpi.name,
        "formula": kpi.formula.text,
        "unit": kpi.unit,
        "by": by.value,
        "zone": zone,
        "values": [_point_document(point, asked) for point in points],
        "missing": sum(bool(point.found.missing) for point in points),
        "undefined": sum(point.found.undefined for point in points),
    }
    of(context).answer(document, lambda console: _show_points(console, kpi, points, asked, document))


def _question(
    by: StepOption,
    times: tuple[str | None, str | None],
    zone: str,
    elements: Sequence[str],
    each: bool,
    duration: int | None,
) -> KpiQuestion:
    from datetime import UTC, datetime, timedelta

    from headrace_pm.operators.kpi.kpi_series import KpiQuestion, KpiStep
    from headrace_pm.operators.periods import between

    length = timedelta(days=1 if by is StepOption.HOUR else 30)
    first, end = between(*times, datetime.now(UTC), length)
    return KpiQuestion(first, end, KpiStep(by.value), _zone(zone), elements, each, duration)


def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo

    from headrace.errors import CallerError

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise CallerError(f"there is no zone {name}", "write UTC, or such as Asia/Ho_Chi_Minh") from None


def _point_document(point: KpiPoint, asked: KpiQuestion) -> dict[str, Any]:
    return {
        "at": point.at.astimezone(asked.zone).isoformat(),
        "ne": point.element or None,
        "value": point.found.value,
        "missing": list(point.found.missing),
        "undefined": point.found.undefined,
        "samples": point.samples,
        "nulls": point.nulls,
    }


def _show_points(
    console: Any, kpi: Kpi, points: Sequence[KpiPoint], asked: KpiQuestion, document: dict[str, Any]
) -> None:
    from rich.markup import escape

    from headrace.commands import Column, print_list

    form = "%Y-%m-%d %H:%M" if asked.step.value == StepOption.HOUR.value else "%Y-%m-%d"
    all_points, points = points, [point for point in points if point.samples or point.nulls]
    columns = [
        Column("at", [point.at.astimezone(asked.zone).strftime(form) for point in points]),
        Column(escape(f"{kpi.name} {kpi.unit}".strip()), [_value(point) for point in points]),
        Column("values", [f"{point.samples:,}" for point in points], spare=1),
        Column("without a value", [f"{point.nulls:,}" for point in points], spare=2),
    ]
    if asked.each:
        columns.insert(1, Column("element", [escape(point.element) for point in points]))
    print_list(console, columns)
    if empty := len(all_points) - len(points):
        console.print(f"{empty:,} of {len(all_points):,} values have no record at all, and are not listed")
    console.print(f"{kpi.formula.text}: {document['missing']} missing, {document['undefined']} divided by zero")


def _value(point: KpiPoint) -> str:
    if point.found.value is not None:
        return f"{point.found.value:,.6g}"
    if point.found.undefined:
        return "– (division by zero)"
    shown = ", ".join(f"c{counter}" for counter in point.found.missing[:COUNTERS_SHOWN])
    return f"– (no {shown}{'…' if len(point.found.missing) > COUNTERS_SHOWN else ''})"
