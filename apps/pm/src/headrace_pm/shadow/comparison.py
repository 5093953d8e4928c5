"""Two tables of counters, compared where they are: first by count and digest for each element and time, in SQL and on
several connections; then, only where those differ, by counter; and then row by row.

The whole of both tables is read once. A query reads so many rows that none takes long, and what it answers is compared
and forgotten, so memory does not grow with the tables. A difference is looked at again before it is told: while both
tables are written, what was behind may have come meanwhile.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from headrace.errors import CallerError, NotFound
from headrace.services import bare_errors
from headrace.tables import OpenTables, open_tables
from headrace_pm.shadow.differences import Compared, CounterDifference, CounterPlace, row_differences
from headrace_pm.shadow.shadow_tables import COMPARED, COMPARED_SHADOW, COUNTERS, shadow_name

# About a quarter of a second of one core: long enough to be worth a round trip, and far from any time limit.
ROWS_PER_QUERY = 250_000
# However many rows an element has by the average: a short window of it is not cut into thousands.
PIECE_MIN = timedelta(hours=1)
PARALLEL = 4
LIMIT = 100
FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)
_TICK = timedelta(milliseconds=1)
INT32 = (-(1 << 31), (1 << 31) - 1)
# Its versions come from a counter of its own, so they always differ.
NOT_COMPARED = frozenset({"version"})

Digest = tuple[int, int]
"""Rows and their digest."""
Place = tuple[int, datetime]


@dataclass(frozen=True, slots=True)
class CompareScope:
    """What to compare: from `begin` to before `end`, all elements or one; `extra`: also what `extra_field` says."""

    begin: datetime = FIRST
    end: datetime = LAST
    ne_id: int | None = None
    extra: bool = True
    limit: int = LIMIT

    @property
    def is_whole(self) -> bool:
        return (self.begin, self.end) == (FIRST, LAST)


@dataclass(frozen=True, slots=True)
class _Range:
    """What one query reads."""

    ne_min: int
    ne_max: int
    begin: datetime
    end: datetime


class CounterComparison:
    """One comparison of production with shadow."""

    def __init__(
        self, production: OpenTables, shadow: OpenTables, scope: CompareScope, rows_per_query: int = ROWS_PER_QUERY
    ) -> None:
        self._sides, self._scope, self._rows_per_query = (production, shadow), scope, rows_per_query
        self._rows = [0, 0]
        self._times = 0
        self._found: list[CounterDifference] = []
        self._places_left = 0

    async def run(self, parallel: int = PARALLEL) -> Compared:
        began = time.monotonic()
        await self._check_columns()
        ranges, room = await self._ranges(), asyncio.Semaphore(max(1, parallel // 2))
        with bare_errors():
            async with asyncio.TaskGroup() as group:
                for each in ranges:
                    group.create_task(self._compare(each, room))
        found = sorted(self._found, key=lambda each: (each.place.ne_id, each.place.record_time, each.place.counter_id))
        left = self._places_left
        return Compared(self._rows[0], self._rows[1], self._times, tuple(found), left, time.monotonic() - began)

    async def _check_columns(self) -> None:
        """`NotFound` or `CallerError` if they cannot be compared."""
        found = [{name.lower(): rest for name, *rest in await side.rows("counters_columns")} for side in self._sides]
        for name, columns in zip((COUNTERS, shadow_name(COUNTERS)), found, strict=True):
            if not columns:
                raise NotFound(
                    f"there is no table {name} in this database", "headrace pm shadow makes both and fills it"
                )
        left, right = ({name: tuple(kind) for name, kind in side.items() if name not in NOT_COMPARED} for side in found)
        if left != right:
            words = "; ".join(_column_words(left, right))
            raise CallerError(f"{COUNTERS} and {shadow_name(COUNTERS)} have different columns: {words}")

    async def _ranges(self) -> list[_Range]:
        scope, spans = self._scope, dict[int, tuple[datetime, datetime]]()
        low, high = INT32 if scope.ne_id is None else (scope.ne_id, scope.ne_id)
        rows = 0
        for side in self._sides:
            rows = max(rows, (await side.rows("counters_estimate"))[0][0])
            asked = {"ne_min": low, "ne_max": high, "begin": scope.begin, "end": scope.end}
            for element, first, last in await side.rows("counters_elements", **asked):
                before = spans.get(element, (first, last))
                spans[element] = min(first, before[0]), max(last, before[1])
        per_element = max(1.0, rows / max(1, len(spans)))
        return list(self._cut(spans, per_element))

    def _cut(self, spans: Mapping[int, tuple[datetime, datetime]], per_element: float) -> Iterator[_Range]:
        """Several small elements in one query, or one large one in several pieces. A window of time is one piece of
        the key for each element alone, so then there is a query for each."""
        elements, together = sorted(spans), int(self._rows_per_query / per_element)
        if together > 1 and self._scope.is_whole:
            for number in range(0, len(elements), together):
                some = elements[number : number + together]
                yield _Range(some[0], some[-1], FIRST, LAST)
            return
        wanted = math.ceil(per_element / self._rows_per_query)
        for element in elements:
            first, last = spans[element]
            pieces = min(wanted, math.ceil((last - first + _TICK) / PIECE_MIN))
            step = (last - first + _TICK) / pieces
            edges = [first + step * number for number in range(pieces)] + [last + _TICK]
            for begin, end in pairwise(edges):
                yield _Range(element, element, begin, end)

    async def _compare(self, each: _Range, room: asyncio.Semaphore) -> None:
        async with room:
            production, shadow = await self._digests(each)
            self._rows[0] += sum(rows for rows, _ in production.values())
            self._rows[1] += sum(rows for rows, _ in shadow.values())
            places = production.keys() | shadow.keys()
            self._times += len(places)
            for place in sorted(place for place in places if production.get(place) != shadow.get(place)):
                if len(self._found) >= self._scope.limit:
                    self._places_left += 1
                else:
                    await self._look_into(*place)

    async def _digests(self, each: _Range) -> tuple[Mapping[Place, Digest], Mapping[Place, Digest]]:
        asked = {"ne_min": each.ne_min, "ne_max": each.ne_max, "begin": each.begin, "end": each.end}
        # A condition that every row meets would cost an eighth of the whole.
        asked |= {"whole": (each.begin, each.end) == (FIRST, LAST), "extra": self._scope.extra}
        production, shadow = await asyncio.gather(*(side.rows("counters_digest", **asked) for side in self._sides))
        return _by_place(production), _by_place(shadow)

    async def _look_into(self, ne_id: int, record_time: datetime) -> None:
        place = {"ne_id": ne_id, "record_time": record_time, "extra": self._scope.extra}
        left, right = [
            {counter: tuple(rest) for counter, *rest in await side.rows("counters_of_time", **place)}
            for side in self._sides
        ]
        before = len(self._found)
        for counter in sorted(
            counter for counter in left.keys() | right.keys() if left.get(counter) != right.get(counter)
        ):
            if len(self._found) >= self._scope.limit:
                self._places_left += 1
                return
            rows = [await side.rows("counters_rows", **place, counter_id=counter) for side in self._sides]
            if found := row_differences(*rows):
                self._found.append(CounterDifference(CounterPlace(ne_id, record_time, counter), found))
        if len(self._found) == before and await self._still_differs(ne_id, record_time):
            self._places_left += 1

    async def _still_differs(self, ne_id: int, record_time: datetime) -> bool:
        """No row differs: rows that were behind have come meanwhile, or else the digest knows more than we."""
        production, shadow = await self._digests(_Range(ne_id, ne_id, record_time, record_time + _TICK))
        return production != shadow


def _by_place(rows: Sequence[tuple[int, datetime, int, int]]) -> dict[Place, Digest]:
    return {(element, moment): (count, int(digest)) for element, moment, count, digest in rows}


def _column_words(left: Mapping[str, Sequence[str]], right: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name in sorted(left.keys() | right.keys()):
        if name not in right:
            yield f"{name} is only in {COUNTERS}"
        elif name not in left:
            yield f"{name} is only in {shadow_name(COUNTERS)}"
        elif left[name] != right[name]:
            kinds = (
                " ".join(filter(None, side[name])).replace(" NO", " not null").replace(" YES", "")
                for side in (left, right)
            )
            yield f"{name} is {' and '.join(kinds)}"


@asynccontextmanager
async def open_compared(url: str) -> AsyncIterator[tuple[OpenTables, OpenTables]]:
    """Both tables of one database; nothing is made there."""
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(open_tables(url, each)) for each in (COMPARED, COMPARED_SHADOW)]
        yield opened[0], opened[1]


async def compared(url: str, scope: CompareScope, parallel: int = PARALLEL) -> Compared:
    """Compare what a database has of both."""
    if scope.end <= scope.begin:
        raise CallerError("--to is not after --from")
    async with open_compared(url) as (production, shadow):
        return await CounterComparison(production, shadow, replace(scope, limit=max(1, scope.limit))).run(parallel)
