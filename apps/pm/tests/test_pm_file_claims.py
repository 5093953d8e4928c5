"""Files in the table of a foreign contract pass the contract of sources, on real databases."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pm_file_world import SPOOL, FileWorld

from headrace.errors import Conflict
from headrace.sources import HeldItem, ItemCandidate, ItemSettlement, ItemState, Source
from headrace.tables import Columns
from headrace.testing.contracts import SourceContract, SuppliedItem
from headrace.testing.passage import Passage
from headrace.testing.twins import turns_red
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.tables.checkpoints import SinkCheckpoints
from headrace_pm.tables.file_claims import FileClaims, HeldFile

STATES = {"COMPLETED": ItemState.DONE, "ERROR": ItemState.DEAD}
BOTH = {"mysql_processed": "1", "clickhouse_processed": "1"}


class SizedFiles(FileClaims):
    """The contract looks into payloads; here what it put there is the size of a file. And done is what both sinks have,
    so they have it."""

    world: FileWorld

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        held = await super().hold(candidate, holder, hold_s)
        return held and replace(held, payload={"n": held.payload.file_size})

    async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
        if settlement.state is ItemState.DONE:
            self.world.change(int(held.key), **BOTH)
        return await super().settle(held, settlement)


class FileSupply:
    """`SourceSupply`: files that somebody puts into the table by SQL, as any program may."""

    def __init__(self, world: FileWorld) -> None:
        self.world = world
        self.source: Source = sized(world, 0)

    def wall(self) -> float:
        return time.time()

    async def add(self, payload: Mapping[str, Any]) -> str:
        return str(self.world.add(payload.get("n")))

    async def look(self, key: str) -> SuppliedItem:
        state, attempts, reason = self.world.look(int(key))
        # The row counts retries, the contract also the attempt that was done.
        return SuppliedItem(STATES.get(str(state)), int(attempts) + (state == "COMPLETED"), str(reason))

    async def occupy(self, key: str) -> None:
        values = f"{key}, 'other', 1, {self.world.moment_ago(-60)}"
        self.world.query(f"INSERT INTO pm_file_claim (file_id, owner, epoch, until) VALUES ({values})")

    async def sweep(self) -> None:
        """A poll finds what lost holds had by itself."""


def sized(world: FileWorld, number: int) -> SizedFiles:
    files = SizedFiles(world.opened[number], SPOOL)
    files.world = world
    return files


@pytest.fixture
def supply(file_world: FileWorld) -> FileSupply:
    return FileSupply(file_world)


class TestFileClaims(SourceContract):
    features = FileClaims.features

    @pytest.fixture
    async def handles(self, file_world: FileWorld) -> Sequence[Source]:  # type: ignore[override]
        return [sized(file_world, number) for number in range(len(file_world.opened))]

    @pytest.fixture
    def passage(self, file_world: FileWorld) -> Passage:
        return file_world.passage


def counters(version: int, object_hash: int) -> Columns:
    fixed = {"ne_id": 7, "duration": 300, "cell_index": 1, "obj_hash": object_hash, "version": version}
    texts = {"rat_type": "5GA", "group_code": "G", "extra_field": "{}", "record_time": datetime(2026, 1, 1, tzinfo=UTC)}
    values = {name: [value] * 100 for name, value in {**fixed, **texts}.items()}
    return Columns({**values, "counter_id": list(range(100)), "counter_value": [float(version)] * 100})


async def write(world: FileWorld, held: HeldFile, version: int) -> None:
    # SQLite has no numbers of 64 bits without a sign: there it is the same bits with one.
    all_ones = -1 if world.dialect == "sqlite" else 2**64 - 1
    async with world.tables.transaction() as tx:
        tx.run_many("counters_upsert", counters(version, all_ones))
        SinkCheckpoints(world.tables).record(tx, held.file_id, "mysql", held.epoch, Checkpoint(1, 100, 2**63))


async def test_rows_and_checkpoint_are_one_and_a_late_holder_moves_neither(file_world: FileWorld) -> None:
    world = file_world
    world.add()
    _, late = await world.hold()
    world.lose_holds()
    _, held = await world.hold("b")
    with pytest.raises(Conflict):
        await write(world, late, 1)
    assert world.query("SELECT COUNT(*) FROM pm_counter_data") == [(0,)]
    await write(world, held, 2)
    await write(world, held, 1)
    found = world.query("SELECT COUNT(*), MIN(counter_value), MIN(version) FROM pm_counter_data")
    assert found == [(100, 2.0, 2)], "an older version overwrites nothing"
    assert await SinkCheckpoints(world.tables).load(held.file_id, "mysql") == Checkpoint(1, 100, 2**63)


async def test_a_file_whose_one_sink_is_done_waits_for_the_other(file_world: FileWorld) -> None:
    key = file_world.add()
    item, held = await file_world.hold()
    assert (held.file_name, held.system_type, item.attempts_max) == ("0.dat", "5GA", 3)
    assert file_world.look(key) == ("DOWNLOADING", 0, "")
    file_world.change(key, mysql_processed="1")
    assert await file_world.claims().give_back(item)
    assert file_world.look(key) == ("PARTIAL_DONE", 0, "")
    _, again = await file_world.hold()
    assert (again.mysql_processed, again.clickhouse_processed) == (True, False)


async def test_what_others_do_by_sql_counts(file_world: FileWorld) -> None:
    claims = file_world.claims()
    key = file_world.add()
    item, _ = await file_world.hold()
    assert await claims.settle(item, ItemSettlement(ItemState.AGAIN, 2, time.time(), delay_s=1_000.0))
    assert (await claims.poll(10)).candidates == ()
    file_world.change(key, state="'PENDING'", retry_count="0")
    assert (await file_world.hold())[0].attempts == 0, "whoever sets the count back wants it now"
    file_world.query("DELETE FROM pm_file_claim")
    assert (await claims.poll(10)).candidates == (), "DOWNLOADING without a claim is another program's"


TWINS: dict[str, tuple[str, str, Any]] = {
    "a hold of what is held": (
        "claim_take",
        "(owner IS NULL OR until <= NOW OR owner = :owner)",
        TestFileClaims.test_a_held_item_is_not_held_twice,
    ),
    "a hold that is revived": (
        "claim_renew",
        "until > NOW",
        TestFileClaims.test_a_hold_that_has_passed_is_not_revived,
    ),
    "a late settlement": ("file_again", "c.epoch = :epoch", TestFileClaims.test_a_late_holder_changes_nothing),
}


@pytest.mark.parametrize("bug", TWINS)
async def test_a_claim_without_its_guard_is_noticed(supply: FileSupply, bug: str) -> None:
    name, guard, noticed_by = TWINS[bug]
    supply.world.break_guard(name, guard)
    await turns_red(noticed_by, supply=supply, passage=supply.world.passage, state=ItemState.AGAIN)


async def test_a_checkpoint_without_its_epoch_is_noticed(file_world: FileWorld) -> None:
    file_world.break_guard("sink_advance", "epoch = :epoch")
    with pytest.raises(pytest.fail.Exception):
        await test_rows_and_checkpoint_are_one_and_a_late_holder_moves_neither(file_world)
