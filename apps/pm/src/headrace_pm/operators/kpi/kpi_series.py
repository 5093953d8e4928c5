"""The values of a KPI by hour or by day, over all elements or for each.

The database sums up quarters of an hour, because every time zone differs from UTC by whole ones; hours and days of the
zone that was asked for are put together here. An hour without any record is there too: its value is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from headrace.errors import CallerError, NotFound
from headrace.tables import OpenTables
from headrace_pm.operators.elements import NamedElement, id_values, named_elements
from headrace_pm.operators.kpi.formula import CounterTotals, Formula, KpiValue
from headrace_pm.operators.periods import EPOCH

STEP_S = 900
POINTS_MAX = 1_000_000
UTC_ZONE = ZoneInfo("UTC")


class KpiStep(StrEnum):
    """How long one value is."""

    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class Kpi:
    """A row of `pm_kpi`."""

    name: str
    formula: Formula
    unit: str


@dataclass(frozen=True, slots=True)
class KpiQuestion:
    """Which time, in which steps of which zone; of which elements, and whether each for itself. `duration` chooses
    among records of several lengths."""

    first: datetime
    end: datetime
    step: KpiStep = KpiStep.HOUR
    zone: ZoneInfo = UTC_ZONE
    elements: Sequence[str] = ()
    each: bool = False
    duration: int | None = None


@dataclass(frozen=True, slots=True)
class KpiPoint:
    """One value. `element` is '' for all together; `samples` are the values that went into it, `nulls` rows without."""

    at: datetime
    element: str
    found: KpiValue
    samples: int
    nulls: int


async def kpi_named(tables: OpenTables, name: str) -> Kpi:
    row = await tables.one("kpi_one", name=name)
    if row is None:
        raise NotFound(
            f"there is no KPI {name}", "headrace pm kpi list; headrace pm import brings some from pm_kpi.csv"
        )
    return Kpi(row[0], Formula.of(row[1]), row[2])


async def kpi_list(tables: OpenTables) -> list[tuple[str, str, str]]:
    """Name, formula and unit of each."""
    return [(name, formula, unit) for name, formula, unit in await tables.rows("kpi_list")]


async def kpi_points(tables: OpenTables, kpi: Kpi, asked: KpiQuestion) -> list[KpiPoint]:
    """The values in the order of time, and of the names of elements within."""
    elements = await named_elements(tables, asked.elements)
    starts = list(_starts(asked))
    if len(starts) * (len(elements) if asked.each else 1) > POINTS_MAX:
        raise CallerError(f"more than {POINTS_MAX:,} values", "ask for a shorter time, by day, or for fewer elements")
    totals = await _totals(tables, kpi, asked, elements)
    rows: Sequence[NamedElement | None] = elements if asked.each else (None,)
    return [_point(kpi, at, element, totals) for at in starts for element in rows]


Place = tuple[datetime, int | None]


async def _totals(
    tables: OpenTables, kpi: Kpi, asked: KpiQuestion, elements: Sequence[NamedElement]
) -> dict[Place, dict[int, CounterTotals]]:
    found: dict[Place, dict[int, CounterTotals]] = {}
    durations: set[int] = set()
    name = "kpi_totals_by_element" if asked.each else "kpi_totals"
    fixed = {"counters": list(kpi.formula.counters), "first": asked.first, "end": asked.end, "step_s": STEP_S}
    for ids in id_values(elements):
        rows = await tables.rows(name, duration=asked.duration, **fixed, **ids)
        for ne_id, quarter, counter, total, count, least, most, nulls, shortest, longest in rows:
            durations |= {shortest, longest}
            at = _start(EPOCH + timedelta(seconds=int(quarter) * STEP_S), asked)
            place = found.setdefault((at, ne_id), {})
            new = CounterTotals(total or 0.0, count, _or(least, float("inf")), _or(most, float("-inf")), nulls)
            place[counter] = place[counter].joined(new) if counter in place else new
    if len(durations) > 1:
        known = ", ".join(map(str, sorted(durations)))
        raise CallerError(f"there are records of {known} s, which do not add up", "choose one by --duration")
    return found


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _point(
    kpi: Kpi, at: datetime, element: NamedElement | None, totals: dict[Place, dict[int, CounterTotals]]
) -> KpiPoint:
    found = totals.get((at, element.ne_id if element else None), {})
    samples, nulls = sum(each.samples for each in found.values()), sum(each.nulls for each in found.values())
    return KpiPoint(at, element.name if element else "", kpi.formula.value(found), samples, nulls)


def _start(moment: datetime, asked: KpiQuestion) -> datetime:
    """The beginning of the hour or day that a moment is in by the clocks of the zone, in UTC: of two hours with one
    name, when clocks are set back, each is its own."""
    local = moment.astimezone(asked.zone).replace(minute=0, second=0, microsecond=0)
    if asked.step is KpiStep.DAY:
        local = local.replace(hour=0, fold=0)
    return local.astimezone(UTC)


def _starts(asked: KpiQuestion) -> Iterator[datetime]:
    at, before = asked.first, None
    while at < asked.end:
        start = _start(at, asked)
        if start != before:
            yield start
        before = start
        at += timedelta(seconds=STEP_S)
