"""The end of a file in Kafka: its last checkpoint and its flag are one, and checkpoints on the way are few."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from pm_file_world import FileWorld, downloaded, listed, register
from pm_kafka_world import FILE, MemoryCheckpoints, batch_of, file_batches, lost_answer, settings_of
from test_pm_kafka_sink import whole

from headrace.errors import ClaimLost
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.kafka.forms import RecordForm
from headrace_pm.kafka.producer import open_producer
from headrace_pm.kafka.sink import KafkaSink
from headrace_pm.tables.checkpoints import SinkCheckpoints
from headrace_pm.tables.progress import FileProgress

BATCHES, BEHIND = 23, 10
ALL = whole([batch_of(number) for number in range(BATCHES)])


@dataclass
class Ends(MemoryCheckpoints):
    """Where files end; the first calls fail as often as is said."""

    ends: list[Checkpoint] = field(default_factory=list)
    failing: int = 0

    async def finish(self, file_id: int, sink: str, epoch: int, checkpoint: Checkpoint) -> None:
        if self.failing:
            self.failing -= 1
            raise lost_answer()
        await self.save(file_id, sink, epoch, checkpoint)
        self.saves.pop()
        self.ends.append(checkpoint)


async def sent(topic: str, checkpoints: Ends, batches: int = BATCHES) -> None:
    async with open_producer(settings_of(topic)) as producer:
        sink = KafkaSink(producer, checkpoints, RecordForm.ROW_BINARY, BEHIND, checkpoints.finish)
        assert sink.sets_flag
        assert await sink.write(FILE, file_batches(batches)) == checkpoints.kept


async def few_are_saved(topic: str, checkpoints: Ends) -> None:
    await sent(topic, checkpoints)
    assert checkpoints.ends == [ALL]
    assert len(checkpoints.saves) <= BATCHES // BEHIND


async def test_a_file_ends_once_and_is_saved_rarely_before(kafka_topic: str) -> None:
    await few_are_saved(kafka_topic, Ends(failing=2))


class EveryMove(Ends):
    """The twin: as if each batch were saved."""

    async def finish(self, file_id: int, sink: str, epoch: int, checkpoint: Checkpoint) -> None:
        for number in range(checkpoint.next_batch):
            await self.save(file_id, sink, epoch, Checkpoint(number))
        await super().finish(file_id, sink, epoch, checkpoint)


async def test_to_save_every_batch_is_noticed(kafka_topic: str) -> None:
    with pytest.raises(AssertionError):
        await few_are_saved(kafka_topic, EveryMove())


async def test_a_file_that_was_sent_before_ends_all_the_same(kafka_topic: str) -> None:
    checkpoints = Ends(kept=ALL)
    await sent(kafka_topic, checkpoints)
    assert (checkpoints.ends, checkpoints.saves) == ([ALL], [])


async def test_a_worker_that_lost_its_claim_ends_nothing(kafka_topic: str) -> None:
    checkpoints = Ends(epoch=FILE.epoch + 1)
    with pytest.raises(ClaimLost):
        await sent(kafka_topic, checkpoints, batches=2)
    assert checkpoints.ends == []


async def the_end_is_one(world: FileWorld) -> None:
    progress, checkpoints = FileProgress(world.tables, "here"), SinkCheckpoints(world.tables)
    await register(world, listed("a"))
    _, held = await world.hold()
    held = (await downloaded(world, held, b"one")).held
    await progress.sink_finished(held.file_id, "kafka", held.epoch, ALL)
    assert world.flags(held.file_id) == ("PARTIAL_DONE", False, True)
    assert await checkpoints.load(held.file_id, "kafka") == ALL
    world.lose_holds()
    world.change(held.file_id, clickhouse_processed="FALSE")
    await world.hold("b")
    with pytest.raises(ClaimLost):
        await progress.sink_finished(held.file_id, "kafka", held.epoch, Checkpoint(99, 1, 1))
    assert world.flags(held.file_id)[2] is False
    assert (await checkpoints.load(held.file_id, "kafka")).next_batch != 99


async def test_the_last_checkpoint_and_the_flag_are_one(file_world: FileWorld) -> None:
    await the_end_is_one(file_world)


@pytest.mark.parametrize(
    ("statement", "guard"), [("file_kafka_done", "c.epoch = :epoch"), ("sink_advance", "epoch = :epoch")]
)
async def test_an_end_without_its_guard_is_noticed(file_world: FileWorld, statement: str, guard: str) -> None:
    file_world.break_guard(statement, guard)
    with pytest.raises(AssertionError):
        await the_end_is_one(file_world)
