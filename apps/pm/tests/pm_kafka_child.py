"""A process that writes one file to Kafka and keeps its checkpoints in a file; to be killed at a labelled point.

    python pm_kafka_child.py BOOTSTRAP TOPIC FORM BATCHES CHECKPOINTS POINT

`POINT` is `sent` (after the fifth batch was handed over), `saved` (after a checkpoint past the third) or `none`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from pm_kafka_world import FILE, batch_of

from headrace_pm.counters.batch import CounterBatch
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.kafka.forms import RecordForm
from headrace_pm.kafka.producer import open_producer
from headrace_pm.kafka.settings import KafkaSettings
from headrace_pm.kafka.sink import KafkaSink

PARALLEL = 3


class FileCheckpoints:
    """One checkpoint in a file that is always whole."""

    def __init__(self, path: Path, point: str) -> None:
        self._path, self._point = path, point

    async def load(self, file_id: int, sink: str) -> Checkpoint:
        return Checkpoint(**json.loads(self._path.read_text())) if self._path.exists() else Checkpoint()

    async def save(self, file_id: int, sink: str, epoch: int, checkpoint: Checkpoint) -> None:
        fresh = self._path.with_suffix(".fresh")
        fresh.write_text(json.dumps(asdict(checkpoint)))
        fresh.replace(self._path)
        if self._point == "saved" and checkpoint.next_batch >= 3:
            await pause()


async def pause() -> None:
    print("at the point", flush=True)
    await asyncio.Event().wait()


async def main(settings: KafkaSettings, batches: int, checkpoints: FileCheckpoints, point: str) -> None:
    held = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read(since: int) -> Iterator[CounterBatch]:
        for number in range(since, batches):
            if point == "sent" and number == 5:
                print("at the point", flush=True)
                asyncio.run_coroutine_threadsafe(held.wait(), loop).result()
            yield batch_of(number)

    async with open_producer(settings) as producer:
        done = await KafkaSink(producer, checkpoints, settings.kafka_form).write(FILE, read)
    print(f"done {done.next_batch} {done.rows} {done.digest}", flush=True)


if __name__ == "__main__":
    bootstrap, topic, form, batches, path, point = sys.argv[1:]
    settings = KafkaSettings(
        kafka_bootstrap=bootstrap, kafka_topic=topic, kafka_form=RecordForm(form), kafka_parallel=PARALLEL
    )
    asyncio.run(main(settings, int(batches), FileCheckpoints(Path(path), point), point))
