"""Gaps and KPIs over counters in a real database, with values that are missing, NULL, or of another length."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from pm_operator_world import DAY, QUARTER, counted, elements, operator_tables

from headrace.errors import CallerError, NotFound
from headrace.tables import OpenTables
from headrace_pm.operators.delivery_gaps import gap_report
from headrace_pm.operators.kpi.formula import KpiValue
from headrace_pm.operators.kpi.kpi_series import KpiPoint, KpiQuestion, KpiStep, kpi_named, kpi_points
from headrace_pm.operators.periods import PeriodSpan, moment_of, period_of


async def test_the_periods_that_an_element_did_not_deliver_are_found(operator_url: str) -> None:
    async with operator_tables(operator_url) as tables:
        span = PeriodSpan.around(DAY, DAY + 8 * QUARTER, period_of("15m"))
        with pytest.raises(CallerError, match="no elements"):
            await gap_report(tables, span)
        # More than are asked for in one statement.
        await elements(tables, *(f"gnb-{number:03d}" for number in range(1, 61)))
        for ne_id in range(1, 60):
            quarters = (-1, 0, 1, 4, 5, 6, 8) if ne_id == 7 else range(-1, 9)
            await counted(tables, ne_id, quarters, {101: 1.0})
        # An hour is no quarter of an hour: it fills no gap.
        await counted(tables, 60, [4], {101: 1.0}, duration=3_600)
        found = await gap_report(tables, span)
        assert (found.missing, found.expected) == (11, 480)
        assert [(each.element.name, each.cells) for each in found.elements[:3]] == [
            ("gnb-060", "mmmmmmmm"),
            ("gnb-007", "ppmmpppm"),
            ("gnb-001", "pppppppp"),
        ]
        assert [(run.first, run.end, run.count) for run in found.elements[1].gaps] == [
            (DAY + 2 * QUARTER, DAY + 4 * QUARTER, 2),
            (DAY + 7 * QUARTER, DAY + 8 * QUARTER, 1),
        ]
        hourly = await gap_report(tables, PeriodSpan.around(DAY, DAY + 8 * QUARTER, 3_600), ["gnb-060"])
        assert hourly.elements[0].cells == "mp"
        with pytest.raises(CallerError, match="duration 86400; there are 900, 3600"):
            await gap_report(tables, PeriodSpan.around(DAY, DAY + QUARTER * 8, 86_400))
        with pytest.raises(NotFound, match="no element gnb-x"):
            await gap_report(tables, span, ["gnb-x"])


async def test_a_kpi_is_summed_up_by_hour_and_day_and_never_made_up(operator_url: str) -> None:
    async with operator_tables(operator_url) as tables:
        await elements(tables, "a", "b")
        await tables.run("pm_kpi_add", name="success", formula="100 * c101 / c102", unit="%")
        kpi = await kpi_named(tables, "success")
        await counted(tables, 1, range(4), {101: 1.0, 102: 2.0, 999: 7.0})
        await counted(tables, 2, range(4), {101: 3.0, 102: 2.0})
        await counted(tables, 1, [4], {101: 1.0, 102: 0.0})
        await counted(tables, 1, [8], {101: 1.0, 102: None})
        asked = KpiQuestion(DAY, DAY + timedelta(hours=4))
        points = await kpi_points(tables, kpi, asked)
        assert [(point.at.hour, point.found, point.samples, point.nulls) for point in points] == [
            (0, KpiValue(100.0), 32, 0),
            (1, KpiValue(None, undefined=True), 4, 0),
            (2, KpiValue(None, (102,)), 2, 2),
            (3, KpiValue(None, (101, 102)), 0, 0),
        ]
        each = await kpi_points(tables, kpi, KpiQuestion(DAY, DAY + timedelta(hours=1), each=True))
        assert [(point.element, point.found.value) for point in each] == [("a", 50.0), ("b", 150.0)]
        only = await kpi_points(tables, kpi, KpiQuestion(DAY, DAY + timedelta(hours=1), elements=["b"]))
        assert [point.found.value for point in only] == [150.0]
        await days_begin_at_midnight_of_the_zone(tables)
        await counted(tables, 1, [0], {101: 1.0}, duration=3_600)
        with pytest.raises(CallerError, match="records of 900, 3600 s"):
            await kpi_points(tables, kpi, asked)
        chosen = await kpi_points(tables, kpi, KpiQuestion(DAY, DAY + timedelta(hours=1), duration=900))
        assert [point.found.value for point in chosen] == [100.0]


async def days_begin_at_midnight_of_the_zone(tables: OpenTables) -> None:
    await tables.run("pm_kpi_add", name="calls", formula="sum(c101)", unit="")
    kpi = await kpi_named(tables, "calls")
    # 17:00 UTC is midnight in Hà Nội.
    await counted(tables, 1, (67, 68, 69), {101: 10.0})
    asked = KpiQuestion(DAY, DAY + timedelta(days=1), KpiStep.DAY, ZoneInfo("Asia/Ho_Chi_Minh"), ["a"])
    found: list[KpiPoint] = await kpi_points(tables, kpi, asked)
    assert [(point.at, point.found.value) for point in found] == [
        (moment_of("2026-01-01T00:00+07:00", "--from"), 4.0 + 2.0 + 10.0),
        (moment_of("2026-01-02T00:00+07:00", "--from"), 20.0),
    ]


def test_what_is_still_to_come_is_not_missing() -> None:
    first, now, end = (moment_of(f"2026-01-31T{time}", "--to") for time in ("06:00", "07:10", "12:00"))
    span = PeriodSpan.around(first, end, 900)
    assert (len(span), len(span.over_at(now))) == (24, 4)
    assert span.over_at(end) == span
    assert span.over_at(first) == span, "nothing of it is over, so it is asked for on purpose"
