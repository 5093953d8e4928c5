"""No row waits for ever without a reason, and what was asked for by hand is done: states that others leave behind."""

from __future__ import annotations

import time

import pytest
from pm_file_world import AGAIN, SPOOL, A, FileWorld, completed, downloaded, register

from headrace.core.claims import Loss
from headrace.errors import ClaimLost
from headrace.sources import ItemSettlement, ItemState
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.tables.checkpoints import SinkCheckpoints
from headrace_pm.tables.file_claims import ATTEMPTS_MAX, FileClaims
from headrace_pm.tables.moves import FileMoves
from headrace_pm.tables.progress import FileProgress
from headrace_pm.tables.recovery import FileRecovery
from headrace_pm.tables.redo import FileRedo, RedoSelection

FAR = Checkpoint(7, 7_000, 1)


async def test_a_flag_that_is_taken_back_after_the_end_is_redone(file_world: FileWorld) -> None:
    """Somebody wants one sink written again, and leaves the state as it is."""
    world = file_world
    await register(world, A)
    held = await completed(world, b"one")
    world.change(held.file_id, clickhouse_processed="0")
    assert (await FileRecovery(world.tables).sweep()).total == 0, "who writes one column after the other has a minute"
    world.change(held.file_id, updated_at=world.ago(1.1))
    found = await FileRecovery(world.tables).sweep()
    assert (found.incomplete, found.total) == (1, 1)
    assert world.flags(held.file_id) == ("PENDING", True, False)
    _, again = await world.hold()
    assert (again.mysql_processed, again.clickhouse_processed) == (True, False)
    assert (await FileRecovery(world.tables).sweep()).total == 0


async def test_an_error_under_a_hold_that_passed_is_tried_again(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    _, held = await world.hold()
    world.change(held.file_id, state="'ERROR'", updated_at=world.ago(90))
    assert (await FileRecovery(world.tables).sweep()).total == 0, "its worker may still end it"
    world.lose_holds()
    assert (await FileRecovery(world.tables).sweep()).errors == 1
    await world.hold("b")


async def test_an_element_that_is_known_now_brings_back_only_what_nobody_holds(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    _, held = await world.hold()
    world.query("INSERT INTO ne (id, name) VALUES (1, 'X')")
    world.change(held.file_id, state="'ERROR'", error_message="'Unknown NE: X'", retry_count="9")
    assert (await FileRecovery(world.tables).sweep()).total == 0, "its worker may still end it"
    world.lose_holds()
    assert (await FileRecovery(world.tables).sweep()).elements == 1
    assert world.look(held.file_id)[:2] == ("PENDING", 0)


async def test_a_flag_that_is_taken_back_under_a_mover_waits_for_it(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    file_id = (await completed(world, b"one")).file_id
    assert len(await FileMoves(world.tables).take(10, "m", 30.0)) == 1
    world.change(file_id, clickhouse_processed="0")
    world.change(file_id, updated_at=world.ago(5))
    assert (await FileRecovery(world.tables).sweep()).total == 0, "a file that is renamed is not read"
    world.lose_holds()
    assert (await FileRecovery(world.tables).sweep()).incomplete == 1


async def test_a_worker_that_lost_its_file_moves_no_checkpoint_of_a_redo(file_world: FileWorld) -> None:
    """Else what is to be written again would begin where that worker is."""
    world, checkpoints = file_world, SinkCheckpoints(file_world.tables)
    await register(world, A)
    _, held = await world.hold()
    held = (await downloaded(world, held, b"one")).held
    for sink in ("mysql", "kafka"):
        await checkpoints.save(held.file_id, sink, held.epoch, FAR)
    world.lose_holds()
    assert await FileRedo(world.tables).redo(RedoSelection(ids=[held.file_id]), ["kafka"]) == 1
    for sink in ("mysql", "kafka"):
        with pytest.raises(ClaimLost):
            await checkpoints.save(held.file_id, sink, held.epoch, Checkpoint(8, 8_000, 2))
    _, again = await world.hold("b")
    found = [(await checkpoints.load(again.file_id, sink)).next_batch for sink in ("mysql", "kafka")]
    assert found == [7, 0]


@pytest.mark.parametrize("by", ["redo", "hand"])
async def test_the_same_content_is_written_if_it_was_to_be_done_again(file_world: FileWorld, by: str) -> None:
    """It was done once, was asked for again, and failed: nobody may say that the sinks have it."""
    world = file_world
    await register(world, A)
    first = await completed(world, b"one")
    if by == "redo":
        assert await FileRedo(world.tables).redo(RedoSelection(ids=[first.file_id])) == 1
    else:
        world.change(first.file_id, state="'PENDING'", retry_count="0")
    item, _ = await world.hold()
    assert await world.claims().settle(item, ItemSettlement(ItemState.DEAD, 1, 0.0))
    assert len((await register(world, AGAIN)).renewed) == 1
    _, second = await world.hold()
    fetched = await downloaded(world, second, b"one")
    assert not fetched.is_same
    assert fetched.held.version > first.version


async def test_a_spool_keeps_nothing_of_rows_that_were_deleted(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    item, held = await world.hold()
    await downloaded(world, held, b"one")
    assert await world.claims().give_back(item)
    assert await world.claims().spooled() == {(held.file_id, 1)}
    world.query(f"DELETE FROM file_processing_state WHERE id = {held.file_id}")
    assert await world.claims().spooled() == set()


async def test_a_hold_that_passed_leaves_no_content_behind(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    _, held = await world.hold()
    world.lose_holds()
    with pytest.raises(ClaimLost):
        await downloaded(world, held, b"one")
    assert world.query("SELECT content_hash, fetched FROM pm_file_revision") == [(None, None)]
    assert world.query("SELECT spool FROM pm_file_claim") == [(None,)]
    with pytest.raises(ClaimLost):
        await FileProgress(world.tables, SPOOL).parsed(held, 1, 1, 1_000)


async def test_batches_of_another_size_begin_anew(file_world: FileWorld) -> None:
    """Batch 7 of 2,000 counters does not follow on seven of 1,000: what lies between would be in no sink."""
    world, checkpoints = file_world, SinkCheckpoints(file_world.tables)
    progress = FileProgress(world.tables, SPOOL)
    await register(world, A)
    item, held = await world.hold()
    held = (await downloaded(world, held, b"one")).held
    await progress.parsed(held, 20_000, 20, 1_000)
    for sink in ("mysql", "kafka"):
        await checkpoints.save(held.file_id, sink, held.epoch, FAR)
    await progress.sink_done(held, "mysql")
    for size, expected in ((1_000, [7, 7]), (2_000, [7, 0])):
        assert await world.claims().give_back(item)
        item, again = await world.hold()
        await progress.parsed(again, 20_000, 20_000 // size, size)
        found = [(await checkpoints.load(again.file_id, sink)).next_batch for sink in ("mysql", "kafka")]
        assert found == expected


async def test_a_worker_whose_clock_is_wrong_lets_no_file_wait_for_longer(file_world: FileWorld) -> None:
    """A delay is counted by the database's clock, as everything else."""

    def ahead() -> float:
        return time.time() + 3_600.0

    world = file_world
    claims = FileClaims(world.tables, SPOOL, now=ahead)
    await register(world, A)
    item, held = await world.hold()
    assert await claims.settle(item, ItemSettlement(ItemState.AGAIN, 0, ahead() - 1.0, delay_s=1.0))
    item, _ = await world.hold()
    assert await claims.settle(item, ItemSettlement(ItemState.AGAIN, 0, ahead(), delay_s=1_000.0))
    assert (await world.claims().poll(10)).candidates == (), held.file_name


async def test_a_row_says_what_went_wrong_and_not_its_class_alone(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    for reason, error, said in (
        ("CommandRefused", "CommandRefused: h_21_u: 553\n  archive.py:3 in move", "CommandRefused: h_21_u: 553"),
        ("Unknown NE: X", "Dead: Unknown NE: X", "Unknown NE: X"),
    ):
        item, held = await world.hold()
        failure = Loss(0, reason, ATTEMPTS_MAX, error)
        assert await world.claims().settle(item, ItemSettlement(ItemState.AGAIN, 1, 0.0, failure=failure))
        assert world.look(held.file_id) == ("PENDING", 1, said)
