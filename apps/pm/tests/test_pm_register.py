"""What becomes of names that are listed, and of those that come again: one row, one revision after the other."""

from __future__ import annotations

import asyncio

import pytest
from pm_file_world import AGAIN, FOLDER, SPOOL, A, FileWorld, completed, downloaded, listed, register

from headrace.sources import ItemSettlement, ItemState
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.tables.checkpoints import SinkCheckpoints
from headrace_pm.tables.progress import FileProgress
from headrace_pm.tables.register import FileTable, RegisteredFiles


async def test_new_names_have_their_rows_once_whoever_lists_them(file_world: FileWorld) -> None:
    world, table = file_world, FileTable(file_world.tables)
    names = [listed(f"{number} á.dat", number) for number in range(1, 1_201)]
    found = await asyncio.gather(*(register(world, *names, number=number) for number in range(3)))
    assert all(len(each.registered) == 1_200 and not each.later for each in found)
    counts = ", ".join(f"(SELECT COUNT(*) FROM {each})" for each in ("pm_file_claim", "pm_file_revision"))
    assert world.query(f"SELECT COUNT(*), MIN(max_retry), {counts} FROM file_processing_state") == [
        (1200, 5, 1200, 1200)
    ]
    assert await register(world, *names) == RegisteredFiles(known=tuple(names))
    texts = [file.text for file in names]
    world.query("UPDATE file_processing_state SET state = 'MOVED' WHERE file_size <= 100")
    assert await table.unknown(FOLDER, [*texts, "other"]) == {*texts[:100], "other"}
    pieces = [piece async for piece in table.unmoved(FOLDER)]
    assert sorted(name for piece in pieces for name in piece) == sorted(texts[100:])
    assert (await table.stamps(FOLDER, texts))["7 á.dat"] == Stamp(7, "u20260101000000")


async def test_a_name_that_was_never_read_has_the_newest_stamp(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    item, held = await world.hold()
    assert (held.stamp, held.revision) == (A.stamp, 1)
    assert (await register(world, AGAIN)).later == (AGAIN,), "somebody is about to read it"
    world.change(held.file_id, state="'PENDING'")
    assert (await register(world, AGAIN)).later == (AGAIN,), "whatever others say of it"
    assert await world.claims().settle(item, ItemSettlement(ItemState.AGAIN, 0, 4e9))
    assert (await register(world, AGAIN)).renewed == (AGAIN,)
    _, again = await world.hold()
    assert (again.stamp, again.revision, again.version) == (AGAIN.stamp, 1, held.version)


async def test_what_was_read_is_finished_before_its_name_begins_anew(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    item, held = await world.hold()
    held = (await downloaded(world, held, b"one")).held
    assert (await register(world, AGAIN)).later == (AGAIN,)
    await FileProgress(world.tables, SPOOL).sink_done(held, "mysql")
    assert await world.claims().settle(item, ItemSettlement(ItemState.AGAIN, 0, 0.0))
    assert (await register(world, AGAIN)).later == (AGAIN,), "one sink waits for it"
    assert world.flags(held.file_id) == ("PARTIAL_DONE", True, False)
    item, held = await world.hold()
    await FileProgress(world.tables, SPOOL).sink_done(held, "kafka")
    assert await world.claims().settle(item, ItemSettlement(ItemState.DONE, 1, 0.0))
    assert world.flags(held.file_id) == ("COMPLETED", True, True)
    assert (await register(world, AGAIN)).renewed == (AGAIN,)
    assert world.flags(held.file_id) == ("PENDING", False, False)
    assert (await register(world, AGAIN)).known == (AGAIN,)
    _, again = await world.hold()
    assert again.revision == 2
    assert again.version > held.version
    assert again.epoch > held.epoch + 1, "a new revision is fenced off from the one before"
    assert (await SinkCheckpoints(world.tables).load(again.file_id, "mysql")).next_batch == 0


@pytest.mark.parametrize("state", ["MOVED", "ERROR"])
async def test_a_name_that_ended_comes_again_as_a_new_revision(file_world: FileWorld, state: str) -> None:
    world = file_world
    await register(world, A)
    held = await completed(world, b"one")
    world.change(held.file_id, state=f"'{state}'", retry_count="2", error_message="'no'")
    again = A if state == "MOVED" else AGAIN
    assert (await register(world, again)).renewed == (again,)
    assert world.look(held.file_id) == ("PENDING", 0, "")
    _, second = await world.hold()
    assert (second.revision, second.stamp) == (2, again.stamp)


async def test_the_same_content_again_is_not_written_again(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    first = await completed(world, b"one")
    await register(world, AGAIN)
    item, second = await world.hold()
    assert second.version > first.version
    fetched = await downloaded(world, second, b"one")
    assert fetched.is_same
    assert (fetched.held.revision, fetched.held.version) == (1, first.version)
    assert await world.claims().settle(item, ItemSettlement(ItemState.DONE, 1, 0.0))
    assert world.flags(first.file_id) == ("COMPLETED", True, True)
    assert await FileTable(world.tables).stamps(FOLDER, ["a.dat"]) == {"a.dat": AGAIN.stamp}
    assert world.query("SELECT COUNT(*) FROM pm_file_revision") == [(1,)]


async def test_the_same_content_as_one_that_failed_is_written(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    item, held = await world.hold()
    await downloaded(world, held, b"one")
    assert await world.claims().settle(item, ItemSettlement(ItemState.DEAD, 3, 0.0))
    await register(world, AGAIN)
    _, held = await world.hold()
    fetched = await downloaded(world, held, b"one")
    assert not fetched.is_same
    assert (fetched.held.revision, fetched.held.mysql_processed) == (2, False)


async def test_other_content_under_the_same_stamp_is_another_revision(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    item, held = await world.hold()
    first = (await downloaded(world, held, b"one")).held
    await FileProgress(world.tables, SPOOL).sink_done(first, "mysql")
    assert await world.claims().settle(item, ItemSettlement(ItemState.AGAIN, 0, 0.0))
    _, held = await world.hold()
    second = (await downloaded(world, held, b"two")).held
    assert (second.revision, second.mysql_processed) == (2, False)
    assert second.version > first.version
    assert world.flags(held.file_id) == ("PARSING", False, False)


async def test_other_content_again_is_written(file_world: FileWorld) -> None:
    world = file_world
    await register(world, A)
    first = await completed(world, b"one")
    await register(world, AGAIN)
    second = await completed(world, b"two")
    assert second.version > first.version
    assert (second.revision, world.flags(second.file_id)) == (2, ("COMPLETED", True, True))
