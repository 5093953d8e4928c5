"""Which element did not deliver which period: from the counters themselves, against the elements of the dictionary.

A period is delivered if there is a record of it. Nobody keeps a second account of deliveries, so none can be wrong:
the primary key of the counters is walked in steps, one for each record time, whatever number of rows there is between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.errors import CallerError
from headrace.tables import OpenTables
from headrace_pm.operators.elements import NamedElement, id_values, named_elements
from headrace_pm.operators.periods import PeriodSpan

PRESENT, MISSING = "p", "m"
# About 7,000 elements for a month of quarters of an hour; a letter each.
CELLS_MAX = 20_000_000


@dataclass(frozen=True, slots=True)
class PeriodRun:
    """Periods that are missing one after another."""

    first: datetime
    end: datetime
    count: int


@dataclass(frozen=True, slots=True)
class ElementDelivery:
    """One element: a letter for each period."""

    element: NamedElement
    cells: str
    gaps: tuple[PeriodRun, ...]

    @property
    def missing(self) -> int:
        return self.cells.count(MISSING)


@dataclass(frozen=True, slots=True)
class GapReport:
    """All elements that were asked for, those with the most missing first."""

    span: PeriodSpan
    elements: tuple[ElementDelivery, ...]

    @property
    def missing(self) -> int:
        return sum(each.missing for each in self.elements)

    @property
    def expected(self) -> int:
        return len(self.elements) * len(self.span)


async def gap_report(
    tables: OpenTables, span: PeriodSpan, names: Sequence[str] = (), duration: int | None = None
) -> GapReport:
    """What is missing in a span. Records count whose duration is the period, or the one that is named."""
    elements = await named_elements(tables, names)
    if not elements:
        raise CallerError("there are no elements, so nothing can be missing", "headrace pm import DIR, with ne.csv")
    if len(elements) * len(span) > CELLS_MAX:
        raise CallerError(f"{len(elements):,} elements × {len(span):,} periods are too many", "ask for a shorter time")
    wanted = span.period_s if duration is None else duration
    cells = {element.ne_id: bytearray(MISSING.encode() * len(span)) for element in elements}
    durations: set[int] = set()
    for values in id_values(elements):
        for ne_id, moment, found in await tables.rows("deliveries", first=span.first, end=span.end, **values):
            durations.add(found)
            if found == wanted:
                cells[ne_id][span.number_of(moment)] = ord(PRESENT)
    if durations and wanted not in durations:
        known = ", ".join(map(str, sorted(durations)))
        raise CallerError(
            f"no record of this time has the duration {wanted}; there are {known}", "choose by --period or --duration"
        )
    deliveries = [_delivery(element, cells[element.ne_id].decode(), span) for element in elements]
    return GapReport(span, tuple(sorted(deliveries, key=lambda each: -each.missing)))


def _delivery(element: NamedElement, cells: str, span: PeriodSpan) -> ElementDelivery:
    gaps, start = [], None
    for place, cell in enumerate(f"{cells}{PRESENT}"):
        if cell == MISSING:
            start = place if start is None else start
        elif start is not None:
            gaps.append(PeriodRun(span.begin(start), span.begin(place), place - start))
            start = None
    return ElementDelivery(element, cells, tuple(gaps))
