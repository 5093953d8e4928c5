"""Counters that nobody wanted: counted once for each revision, whatever is repeated; listed until they are wanted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import count

import numpy as np
from pm_file_world import BrokenTables
from pm_operator_world import operator_tables, query

from headrace.tables import OpenTables
from headrace.testing.twins import turns_red
from headrace_pm.counters.dictionary import NetworkDictionary
from headrace_pm.network.generated_folder import FolderPlan, GeneratedFolder
from headrace_pm.operators.unknown_counters import UnknownCounters, counter_level, out_of_scope, unknown_counters
from headrace_pm.wire.byte_source import HeldBytes
from headrace_pm.wire.counter_file import CounterFile

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def recorder(tables: OpenTables) -> UnknownCounters:
    minutes = count()
    return UnknownCounters(tables, lambda: FIRST + timedelta(minutes=next(minutes)))


def test_what_is_out_of_scope_is_what_batches_leave_out() -> None:
    folder = GeneratedFolder(FolderPlan(2, 3_000, seed=4))
    dictionary = NetworkDictionary(folder.network.dictionary)
    file = folder.file(0)
    found = out_of_scope(CounterFile(HeldBytes(file.content())), dictionary)
    assert sum(found.values()) == file.counters - file.rows > 0
    assert (dictionary.scope.groups_of(np.array(list(found), np.int32)) < 0).all()


async def test_a_revision_is_counted_once_whatever_is_repeated(operator_url: str) -> None:
    async with operator_tables(operator_url) as tables, operator_tables(operator_url) as others:
        mine, theirs = recorder(tables), recorder(others)
        for each in (mine, theirs):
            each.note(1, "a.dat", {7: 3, 8: 1})
            each.note(1, "a.dat", {7: 3, 8: 1})
            each.note(2, "b.dat", {7: 5})
        # Both at once: one of them is refused in the middle and counts the rest, which is nothing.
        await asyncio.gather(mine.flush(), theirs.flush())
        mine.note(2, "b.dat", {7: 5})
        mine.note(3, "c.dat", {8: 1})
        await mine.flush()
        found = await unknown_counters(tables)
        assert [(each.counter_id, each.seen, each.last_file) for each in found] == [(7, 8, "b.dat"), (8, 2, "c.dat")]
        assert found[0].first_seen_at == FIRST < found[1].last_seen_at


class Overtaken(UnknownCounters):
    """Between its look and its writing another process counts the same."""

    async def _uncounted(self, versions: list[int]) -> list[int]:
        found = await UnknownCounters._uncounted(self, versions)
        if not await self.tables.rows("unknown_counted", versions=[1]):
            other = UnknownCounters(self.tables)
            other.note(1, "a.dat", {7: 3})
            await other.flush()
        return found


async def overtaken(tables: OpenTables) -> None:
    mine = Overtaken(tables)
    mine.note(1, "a.dat", {7: 3})
    mine.note(2, "b.dat", {7: 5})
    await mine.flush()
    assert [(each.counter_id, each.seen) for each in await unknown_counters(tables)] == [(7, 8)]


async def test_what_another_process_counts_meanwhile_is_left_out(operator_url: str) -> None:
    async with operator_tables(operator_url) as tables:
        await overtaken(tables)


async def test_without_the_marks_of_revisions_they_would_count_twice(operator_url: str) -> None:
    async def broken(self: None) -> None:
        async with operator_tables(operator_url) as tables:
            ignore = "INSERT OR IGNORE INTO" if operator_url.startswith("sqlite") else "INSERT IGNORE INTO"
            tables.tables = BrokenTables(tables.tables, "unknown_count_file", "INSERT INTO", ignore)
            await overtaken(tables)

    await turns_red(broken)


async def test_a_counter_that_is_wanted_by_now_is_not_listed(operator_url: str) -> None:
    async with operator_tables(operator_url) as tables:
        mine = recorder(tables)
        mine.note(1, "a.dat", {7: 3, 8: 1, 9: 1})
        await mine.flush()
        mine.note(2, "b.dat", {7: 1})
        await mine.flush()
        # At another level it is still unknown.
        wanted = "INSERT INTO counter_cat VALUES (8, 3, 'G'), (9, 4, 'G')"
        query(operator_url, "INSERT INTO extra_field_column VALUES ('rat_type', 3)", wanted)
        assert [each.counter_id for each in await unknown_counters(tables)] == [7, 9]
        assert await counter_level(tables) == "3"
