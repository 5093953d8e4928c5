"""What people and other programs do to the rows by SQL, and what follows; files done again on purpose; affinity."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from pm_file_world import SPOOL, A, FileWorld, completed, downloaded, listed, register

from headrace.errors import CallerError, ClaimLost
from headrace.sources import HeldItem, ItemSettlement, ItemState
from headrace.testing.passage import ManualClock
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.tables.checkpoints import SinkCheckpoints
from headrace_pm.tables.counts import FILE_STATES, FileCounts, SinkLag
from headrace_pm.tables.file_claims import FileClaims, HeldFile
from headrace_pm.tables.moves import FileMoves
from headrace_pm.tables.progress import FileProgress
from headrace_pm.tables.redo import FileRedo, RedoPreview, RedoSelection

FAR = Checkpoint(7, 7_000, 2**64 - 1)
# As the specification has them, whose threshold is a parameter.
FOREIGN_RESETS = {
    "DOWNLOADING": "UPDATE file_processing_state SET state = 'PENDING', retry_count = retry_count + 1 WHERE"
    " state = 'DOWNLOADING' AND download_start_time < {} AND retry_count < max_retry",
    "PARSING": "UPDATE file_processing_state SET state = 'PENDING', retry_count = retry_count + 1 WHERE"
    " state = 'PARSING' AND parse_start_time < {} AND retry_count < max_retry",
}


async def half_done(world: FileWorld) -> tuple[HeldItem, HeldFile]:
    """MySQL has all of it, Kafka some."""
    await register(world, A)
    item, held = await world.hold()
    held = (await downloaded(world, held, b"one")).held
    for sink in ("mysql", "kafka"):
        await SinkCheckpoints(world.tables).save(held.file_id, sink, held.epoch, FAR)
    await FileProgress(world.tables, SPOOL).sink_done(held, "mysql")
    return item, held


async def next_batches(world: FileWorld, held: HeldFile) -> tuple[int, int]:
    checkpoints = SinkCheckpoints(world.tables)
    return tuple([(await checkpoints.load(held.file_id, sink)).next_batch for sink in ("mysql", "kafka")])  # type: ignore[return-value]


async def test_a_file_that_waits_goes_on_where_it_was(file_world: FileWorld) -> None:
    item, held = await half_done(file_world)
    assert await file_world.claims().settle(item, ItemSettlement(ItemState.AGAIN, 0, 0.0))
    _, again = await file_world.hold()
    assert (again.mysql_processed, again.clickhouse_processed) == (True, False)
    assert await next_batches(file_world, held) == (7, 7)
    assert (again.spool, again.was_read, held.was_read) == (SPOOL, True, False)


async def test_a_lost_file_goes_on_where_it_was(file_world: FileWorld) -> None:
    _, held = await half_done(file_world)
    file_world.lose_holds()
    await file_world.hold("b")
    assert await next_batches(file_world, held) == (7, 7)


@pytest.mark.parametrize("retry_count", ["0", "retry_count"])
async def test_a_reset_by_hand_begins_the_missing_sink_anew(file_world: FileWorld, retry_count: str) -> None:
    """A snoozed PARTIAL_DONE is due at once, and its sink trusts no checkpoint."""
    world = file_world
    item, held = await half_done(world)
    assert await world.claims().settle(item, ItemSettlement(ItemState.AGAIN, 1, time.time(), delay_s=1_000.0))
    assert (await world.claims().poll(10)).candidates == ()
    world.change(held.file_id, state="'PENDING'", retry_count=retry_count)
    _, again = await world.hold()
    assert (again.mysql_processed, again.clickhouse_processed) == (True, False)
    assert await next_batches(world, held) == (7, 0)


async def test_what_a_reset_asks_for_is_done_once(file_world: FileWorld) -> None:
    """Whoever takes the file over from its first worker goes on."""
    world = file_world
    item, held = await half_done(world)
    assert await world.claims().settle(item, ItemSettlement(ItemState.DEAD, 3, 0.0))
    world.change(held.file_id, state="'PENDING'", retry_count="0")
    _, again = await world.hold()
    assert await next_batches(world, held) == (7, 0)
    await downloaded(world, again, b"one")
    await SinkCheckpoints(world.tables).save(again.file_id, "kafka", again.epoch, FAR)
    assert world.flags(held.file_id) == ("PARTIAL_DONE", True, False)
    world.lose_holds()
    await world.hold("b")
    assert await next_batches(world, held) == (7, 7)


async def test_a_count_that_is_set_back_is_a_reset(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    item, held = await world.hold()
    held = (await downloaded(world, held, b"one")).held
    await SinkCheckpoints(world.tables).save(held.file_id, "kafka", held.epoch, FAR)
    assert await world.claims().settle(item, ItemSettlement(ItemState.AGAIN, 2, time.time(), delay_s=1_000.0))
    assert (await world.claims().poll(10)).candidates == ()
    world.change(held.file_id, retry_count="0")
    await world.hold()
    assert await next_batches(world, held) == (0, 0)


@pytest.mark.parametrize("state", ["COMPLETED", "MOVED"])
async def test_a_file_that_ended_and_is_reset_is_written_to_both_sinks_again(file_world: FileWorld, state: str) -> None:
    world = file_world
    await register(world, A)
    held = await completed(world, b"one")
    if state == "MOVED":
        (file,) = await FileMoves(world.tables).take(1, "mover", 30.0)
        assert await FileMoves(world.tables).moved({file: "/Access/ClickHouse/Done/a.dat"}) == {held.file_id}
    world.change(held.file_id, state="'PENDING'", retry_count="0")
    _, again = await world.hold()
    assert (again.mysql_processed, again.clickhouse_processed) == (False, False)
    assert await next_batches(world, held) == (0, 0)
    assert again.version == held.version, "the same rows replace themselves"
    assert (again.archived_as is not None) == (state == "MOVED")


async def test_a_flag_that_is_taken_back_under_a_hold_is_redone(file_world: FileWorld) -> None:
    world = file_world
    item, held = await half_done(world)
    await FileProgress(world.tables, SPOOL).sink_done(held, "kafka")
    world.change(held.file_id, mysql_processed="0")
    assert await world.claims().settle(item, ItemSettlement(ItemState.DONE, 1, 0.0))
    assert world.flags(held.file_id) == ("PARTIAL_DONE", False, True), "no file is completed that a sink has not got"
    await world.hold()
    assert await next_batches(world, held) == (0, 7)


@pytest.mark.parametrize("state", FOREIGN_RESETS)
async def test_other_programs_may_reset_what_they_find_stuck(file_world: FileWorld, state: str) -> None:
    """Also under our hold: that goes on, and a stale worker after it changes nothing."""
    world = file_world
    await register(world, A)
    _, held = await world.hold()
    if state == "PARSING":
        held = (await downloaded(world, held, b"one")).held
    world.query(FOREIGN_RESETS[state].format(world.ago(-1)))
    assert world.look(held.file_id)[:2] == ("PENDING", 1)
    assert (await world.claims().poll(10)).candidates == (), "it is held"
    await FileProgress(world.tables, SPOOL).parsed(held, 10, 1, 1_000)
    assert world.look(held.file_id)[0] == "PROCESSING"
    world.change(held.file_id, state="'PENDING'")
    world.lose_holds()
    item, again = await world.hold("b")
    assert item.attempts == 1
    with pytest.raises(ClaimLost):
        await FileProgress(world.tables, SPOOL).parsed(held, 10, 1, 1_000)
    assert again.version == held.version


async def test_a_file_is_left_to_the_process_that_has_it_on_its_disk(file_world: FileWorld) -> None:
    world = file_world
    item, held = await half_done(world)
    ours, others = world.claims(), FileClaims(world.opened[1], "there:/spool")
    full = FileClaims(world.opened[2], SPOOL, accepting=lambda: False)
    assert await ours.give_back(item)
    await register(world, listed("b.dat"))
    assert await ours.spooled() == {(held.file_id, held.revision)}
    assert len((await ours.poll(10)).candidates) == 2
    assert str(held.file_id) not in {each.key for each in (await others.poll(10)).candidates}
    (kept,) = (await full.poll(10)).candidates
    assert (kept.key, kept.rank) == (str(held.file_id), 0)
    world.query(f"UPDATE pm_file_claim SET due_at = {world.moment_ago(1.1)}")
    assert str(held.file_id) in {each.key for each in (await others.poll(10)).candidates}


async def test_what_is_done_again_is_shown_first_and_reset_for_the_sinks_it_is_for(file_world: FileWorld) -> None:
    world, redo = file_world, FileRedo(file_world.tables)
    await register(world, A)
    held = await completed(world, b"one")
    for sink in ("mysql", "kafka"):
        await SinkCheckpoints(world.tables).save(held.file_id, sink, held.epoch, FAR)
    foreign = world.add()
    world.change(foreign, state="'ERROR'", error_message="'no'", file_name="'100%_[x].dat'")
    await register(world, listed("busy.dat"))
    busy, _ = await world.hold()
    every = RedoSelection(created_from=datetime.now(UTC) - timedelta(hours=1))
    assert await redo.preview(every) == RedoPreview({"COMPLETED": 1, "DOWNLOADING": 1, "ERROR": 1}, held=1)
    for selection in (
        RedoSelection(names="100%%x].dat"),
        RedoSelection(names="A*"),
        RedoSelection(ids=[]),
        RedoSelection(created_until=datetime.now(UTC) - timedelta(hours=1)),
        RedoSelection(system_type="ONT"),
    ):
        assert (await redo.preview(selection)).total == 0
    assert (await redo.preview(RedoSelection(names="?00%_[*.dat"))).by_state == {"ERROR": 1}
    assert await redo.redo(RedoSelection(names="*.dat", state="COMPLETED"), ["kafka"]) == 1
    assert world.flags(held.file_id) == ("PENDING", True, False)
    assert await next_batches(world, held) == (7, 0)
    with pytest.raises(ClaimLost):
        await SinkCheckpoints(world.tables).save(held.file_id, "kafka", held.epoch, FAR)
    assert await redo.redo(RedoSelection(ids=[held.file_id, foreign, int(busy.key), 10**9])) == 2
    assert await world.claims().renew(busy, 30.0), "what is held is left alone"
    assert world.flags(held.file_id) == ("PENDING", False, False)
    assert world.look(foreign) == ("PENDING", 0, "")
    assert await next_batches(world, held) == (0, 0)
    with pytest.raises(CallerError):
        await redo.redo(every, ["clickhouse"])


async def test_the_table_in_figures(file_world: FileWorld) -> None:
    world, counts = file_world, FileCounts(file_world.tables)
    assert await counts.by_state() == dict.fromkeys(FILE_STATES, 0)
    assert await counts.oldest_s() == dict.fromkeys(FILE_STATES, 0.0)
    assert (await counts.finished()).percentile(0.5) is None
    await register(world, A)
    held = await completed(world, b"one")
    old, stuck, bad = (world.add() for _ in range(3))
    world.change(old, created_at=world.ago(90), mysql_processed="1", state="'PARTIAL_DONE'")
    world.change(stuck, state="'PARSING'", updated_at=world.ago(121))
    world.change(bad, state="'ERROR'", error_message="'no'", updated_at=world.ago(5))
    assert await counts.by_state() == dict.fromkeys(FILE_STATES, 0) | dict.fromkeys(
        ["COMPLETED", "PARTIAL_DONE", "PARSING", "ERROR"], 1
    )
    ages = await counts.oldest_s()
    assert 5_390 < ages["PARTIAL_DONE"] < 5_500
    assert 290 < ages["ERROR"] < 400
    assert await counts.stuck() == 1
    assert await counts.stuck(60) == 2
    (error,) = await counts.errors()
    assert (error.message, error.files) == ("no", 1)
    assert timedelta(minutes=4) < datetime.now(UTC) - error.last_at < timedelta(minutes=7)
    lags = await counts.lags()
    assert (lags["mysql"].files, lags["kafka"].files) == (1, 2)
    assert lags["mysql"].oldest_s < 100 < 5_390 < lags["kafka"].oldest_s
    assert lags["kafka"] == SinkLag(2, lags["kafka"].oldest_s)
    finished = await counts.finished()
    assert (finished.files, finished.byte_count) == (1, held.file_size)
    assert 0 <= (finished.percentile(0.95) or 0.0) < 60


async def test_a_long_backlog_is_not_read_as_a_whole(file_world: FileWorld) -> None:
    world, counts = file_world, FileCounts(file_world.tables, examined_max=2)
    for age in (10, 30, 60):
        world.change(world.add(), created_at=world.ago(age), mysql_processed=str(int(age == 10)))
    assert 1_790 < (await counts.oldest_s())["PENDING"] < 3_500, "of those that were registered first"
    assert await counts.stuck(5) == 2
    assert {sink: lag.files for sink, lag in (await counts.lags()).items()} == {"mysql": 2, "kafka": 3}


async def test_many_files_that_are_done_with_are_counted_now_and_then(file_world: FileWorld) -> None:
    world, clock = file_world, ManualClock()
    counts = FileCounts(world.tables, moved_many=2, now=clock.monotonic)
    for moved in (1, 2, 2):
        world.change(world.add(), state="'MOVED'")
        assert (await counts.by_state())["MOVED"] == moved
    world.add()
    assert await counts.by_state() == dict.fromkeys(FILE_STATES, 0) | {"MOVED": 2, "PENDING": 1}
    clock.advance(300.0)
    assert (await counts.by_state())["MOVED"] == 3
