"""Files on their way into the archive, and files that nobody works on any more."""

from __future__ import annotations

import pytest
from pm_file_world import AGAIN, FOLDER, SPOOL, A, FileWorld, completed, downloaded, register

from headrace.errors import ClaimLost, Conflict
from headrace.sources import ItemSettlement, ItemState
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.tables.checkpoints import SinkCheckpoints
from headrace_pm.tables.moves import FileMoves
from headrace_pm.tables.progress import FileProgress
from headrace_pm.tables.recovery import FileRecovery, RecoveredFiles

DONE = "/Access/ClickHouse/Done/a.dat"


async def test_a_file_of_both_sinks_is_moved_once(file_world: FileWorld) -> None:
    world, moves = file_world, FileMoves(file_world.tables)
    await register(world, A)
    held = await completed(world, b"one")
    (file,) = await moves.take(10, "mover", 30.0)
    assert (file.folder, file.file_name, file.revision) == (FOLDER, "a.dat", 1)
    assert (file.read, file.listed) == (Stamp(10, "u20260101000001"), A.stamp)
    assert await FileMoves(world.opened[1]).take(10, "other", 30.0) == []
    assert (await register(world, AGAIN)).later == (AGAIN,)
    assert await moves.moved({file: DONE}) == {file.file_id}
    assert world.look(file.file_id, "state, file_moved_time IS NOT NULL") == ("MOVED", 1)
    assert await moves.moved({file: DONE}) == set(), "that hold has ended"
    assert await moves.take(10, "mover", 30.0) == []
    world.change(file.file_id, state="'PENDING'")
    _, again = await world.hold()
    assert (again.archived_as, again.revision, again.version) == (DONE, 1, held.version)
    assert not again.mysql_processed


async def test_a_mover_that_lost_its_hold_changes_nothing(file_world: FileWorld) -> None:
    world, moves = file_world, FileMoves(file_world.tables)
    await register(world, A)
    await completed(world, b"one")
    (late,) = await moves.take(10, "mover", 30.0)
    world.lose_holds()
    (file,) = await moves.take(10, "mover", 30.0)
    assert await moves.moved({late: DONE}) == set()
    assert await moves.vanished([late]) == set()
    assert await moves.changed([late]) == set()
    assert await moves.failed([late], "no") == set()
    assert world.look(file.file_id) == ("COMPLETED", 0, "")
    assert await moves.failed([file], "busy", 1_000.0) == {file.file_id}
    assert world.look(file.file_id) == ("COMPLETED", 0, "busy")
    assert await moves.take(10, "mover", 30.0) == [], "after a pause"


async def test_of_two_movers_that_saw_the_same_one_has_it(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    await completed(world, b"one")
    # Both have looked before either takes.
    world.break_guard("files_to_move", "(c.until IS NULL OR c.until <= NOW)")
    assert len(await FileMoves(world.opened[0]).take(10, "mover", 30.0)) == 1
    assert await FileMoves(world.opened[1]).take(10, "other", 30.0) == []


async def test_a_row_that_is_reset_while_it_is_moved_stays_reset(file_world: FileWorld) -> None:
    world, moves = file_world, FileMoves(file_world.tables)
    await register(world, A)
    await completed(world, b"one")
    (file,) = await moves.take(10, "mover", 30.0)
    world.change(file.file_id, state="'PENDING'")
    assert await moves.moved({file: DONE}) == {file.file_id}
    assert world.look(file.file_id)[0] == "PENDING"
    _, again = await world.hold()
    assert (again.archived_as, again.mysql_processed) == (DONE, False)


async def test_a_source_that_is_another_file_by_now_begins_anew(file_world: FileWorld) -> None:
    world, moves = file_world, FileMoves(file_world.tables)
    await register(world, A)
    held = await completed(world, b"one")
    (file,) = await moves.take(10, "mover", 30.0)
    assert await moves.changed([file]) == {file.file_id}
    assert world.flags(file.file_id) == ("PENDING", False, False)
    _, again = await world.hold()
    assert (again.revision, again.stamp) == (2, A.stamp)
    assert again.version > held.version


async def test_a_file_that_is_nowhere_is_an_error_that_stays(file_world: FileWorld) -> None:
    world, moves = file_world, FileMoves(file_world.tables)
    await register(world, A)
    await completed(world, b"one")
    (file,) = await moves.take(10, "mover", 30.0)
    assert await moves.vanished([file]) == {file.file_id}
    world.change(file.file_id, updated_at=world.ago(600))
    assert await FileRecovery(world.tables).sweep() == RecoveredFiles()
    assert world.look(file.file_id) == ("ERROR", 0, "vanished")


async def test_a_file_that_others_left_behind_comes_back_or_ends(file_world: FileWorld) -> None:
    world, recovery = file_world, FileRecovery(file_world.tables)
    stuck, spent, fresh, parsing, processing = (world.add() for _ in range(5))
    world.change(stuck, state="'DOWNLOADING'", download_start_time=world.ago(11))
    world.change(spent, state="'DOWNLOADING'", download_start_time=world.ago(11), retry_count="3")
    world.change(fresh, state="'DOWNLOADING'", download_start_time=world.ago(9))
    world.change(parsing, state="'PARSING'", parse_start_time=world.ago(31), retry_count="1")
    world.change(processing, state="'PROCESSING'", updated_at=world.ago(31))
    assert await recovery.sweep() == RecoveredFiles(downloading=1, parsing=1, processing=1, exhausted=1)
    assert world.look(stuck)[:2] == ("PENDING", 1)
    assert world.look(spent)[:2] == ("ERROR", 3)
    assert world.look(fresh)[:2] == ("DOWNLOADING", 0)
    assert world.look(parsing)[:2] == ("PENDING", 2)
    assert world.look(processing)[:2] == ("PENDING", 1)
    assert await recovery.sweep() == RecoveredFiles()


async def test_a_file_of_ours_is_never_swept(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    item, held = await world.hold()
    world.change(held.file_id, download_start_time=world.ago(11))
    assert await FileRecovery(world.tables).sweep() == RecoveredFiles()
    assert await world.claims().renew(item, 30.0)


async def test_errors_that_may_heal_come_back_after_a_pause(file_world: FileWorld) -> None:
    world, recovery = file_world, FileRecovery(file_world.tables)
    await register(world, A)
    item, held = await world.hold()
    assert await world.claims().settle(item, ItemSettlement(ItemState.DEAD, 5, 0.0))
    foreign, later, unknown = (world.add() for _ in range(3))
    world.change(foreign, state="'ERROR'", retry_count="1", updated_at=world.ago(2.5))
    world.change(later, state="'ERROR'", retry_count="2", updated_at=world.ago(2.5))
    world.change(unknown, state="'ERROR'", retry_count="3", error_message="'Unknown NE: gnb-1'")
    assert await recovery.sweep() == RecoveredFiles(errors=1)
    assert [world.look(each)[0] for each in (foreign, later, held.file_id)] == ["PENDING", "ERROR", "ERROR"]
    world.query("INSERT INTO ne (name) VALUES ('gnb-1')")
    assert await recovery.sweep() == RecoveredFiles(elements=1)
    assert world.look(unknown)[:2] == ("PENDING", 0)


async def test_the_last_rows_and_the_flag_are_one(file_world: FileWorld) -> None:
    """In one unit: a worker whose hold was lost leaves neither, and no checkpoint."""
    world, progress, checkpoints = (
        file_world,
        FileProgress(file_world.tables, SPOOL),
        SinkCheckpoints(file_world.tables),
    )
    await register(world, A)
    _, late = await world.hold()
    world.lose_holds()
    _, held = await world.hold("b")
    # As if the checkpoint had missed the takeover: the flag alone must refuse all of it.
    world.query(f"UPDATE pm_file_sink SET epoch = {late.epoch}")
    with pytest.raises(Conflict):
        async with world.tables.transaction() as tx:
            checkpoints.record(tx, late.file_id, "mysql", late.epoch, Checkpoint(1, 1, 1))
            progress.record_sink_done(tx, late, "mysql")
    assert world.flags(late.file_id) == ("DOWNLOADING", False, False)
    assert await checkpoints.load(late.file_id, "mysql") == Checkpoint()
    world.query(f"UPDATE pm_file_sink SET epoch = {held.epoch}")
    async with world.tables.transaction() as tx:
        checkpoints.record(tx, held.file_id, "mysql", held.epoch, Checkpoint(1, 1, 1))
        progress.record_sink_done(tx, held, "mysql")
    assert world.flags(held.file_id) == ("PARTIAL_DONE", True, False)


async def test_progress_is_in_the_row_and_ends_with_the_hold(file_world: FileWorld) -> None:
    world, progress = file_world, FileProgress(file_world.tables, SPOOL)
    await register(world, A)
    _, held = await world.hold()
    held = (await downloaded(world, held, b"one")).held
    times = "state, download_end_time IS NOT NULL, parse_start_time IS NOT NULL, parse_end_time IS NOT NULL"
    assert world.look(held.file_id, times) == ("PARSING", 1, 1, 0)
    await progress.parsed(held, 5_000, 5, 1_000)
    assert world.look(held.file_id, times) == ("PROCESSING", 1, 1, 1)
    await progress.note(held, "no acknowledgement")
    await progress.sink_done(held, "kafka")
    assert world.flags(held.file_id) == ("PARTIAL_DONE", False, True)
    times = "error_message, mysql_insert_time IS NOT NULL, clickhouse_insert_time IS NOT NULL"
    assert world.look(held.file_id, times) == ("no acknowledgement", 0, 1)
    world.lose_holds()
    _, again = await world.hold("b")
    with pytest.raises(ClaimLost):
        await FileProgress(world.tables, "there").downloaded(held, A.stamp, bytes(16), 99)
    with pytest.raises(ClaimLost):
        await progress.parsed(held, 1, 1, 1_000)
    with pytest.raises(ClaimLost):
        await progress.sink_done(held, "mysql")
    with pytest.raises(ClaimLost):
        await progress.note(held, "late")
    assert world.flags(held.file_id) == ("PARTIAL_DONE", False, True)
    assert world.look(held.file_id, "error_message, file_size") == ("no acknowledgement", 10)
    read = world.query("SELECT HEX(content_hash), spool FROM pm_file_revision r JOIN pm_file_claim c USING (file_id)")
    assert read == [(b"one".ljust(16).hex().upper(), SPOOL)]
    assert again.epoch > held.epoch
