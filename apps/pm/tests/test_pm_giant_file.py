"""A file of 100 MB, of 1 GB at full size (`HEADRACE_TORTURE=100`), from its server into both sinks: bounded memory."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import numpy as np
from pm_kafka_world import messages_of
from pm_pipeline_world import PipelineServers, PipelineWorld
from waiting import eventually

from headrace_pm.counters.dictionary_files import read_dictionary
from headrace_pm.network.generated_folder import FolderPlan
from headrace_pm.network.message_writer import MessageWriter, Pads, WrittenObject

MESSAGES = 64 if int(os.environ.get("HEADRACE_TORTURE", "1")) > 1 else 6
COUNTERS = 1_000_000
OBJECT_COUNTERS = 250_000
# A process has half of it before its first file; what a file takes does not depend on its size.
PEAK_BYTES_MAX = 250 * 1024 * 1024
# Hours of a machine that is busy with other tests are no limit; this is one that a reader of rows one by one misses.
SECONDS_MAX = 60.0 + MESSAGES * 5.0
FIRST_MS, QUARTER_MS = 1_767_225_600_000, 900_000


def write_giant(path: Path, unit: str, wanted: list[int]) -> None:
    """Messages of a million counters each, in one segment, or in many with pads of both kinds. Of each object only
    counters at its end are in scope."""
    strange = np.arange(OBJECT_COUNTERS, dtype=np.int32) % 1_000 + 2_000_000_000
    ids = np.concatenate([strange[: OBJECT_COUNTERS - len(wanted)], np.array(wanted, np.int32)])
    values = np.arange(OBJECT_COUNTERS, dtype=np.float64)
    with path.open("wb") as file:
        for number in range(MESSAGES):
            objects = [
                WrittenObject(FIRST_MS + number * QUARTER_MS, 900, f"Cell={cell}".encode(), cell, ids, values)
                for cell in range(COUNTERS // OBJECT_COUNTERS)
            ]
            writer = (MessageWriter(), MessageWriter(300_000), MessageWriter(300_000, Pads.DOUBLE))[number % 3]
            file.write(writer.write(unit.encode(), objects))


def peak_bytes(process: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


async def test_a_giant_file_takes_no_more_memory_than_others(pipeline_servers: PipelineServers, tmp_path: Path) -> None:
    world = PipelineWorld(pipeline_servers, tmp_path, FolderPlan(files=1, counters=10, seed=1))
    await world.prepare()
    known = read_dictionary(world.beside)
    level = known.extra_field_column["rat_type"]
    wanted = sorted({counter for counter, at in known.counter_cat if at == level})[:5]
    giant = tmp_path / "giant.dat"
    write_giant(giant, next(iter(known.ne)), wanted)
    rows = MESSAGES * COUNTERS // OBJECT_COUNTERS * len(wanted)
    async with world.service("all", PM_BATCH="9000", PM_FTP_DATA_S="60") as service:
        began = time.monotonic()
        giant.rename(world.folder / "giant.dat")
        await eventually(lambda: world.are_ended(1, 0), world.shown, SECONDS_MAX)
        took_s, peak = time.monotonic() - began, peak_bytes(service.process.pid)
    size = (world.archived()[0]).stat().st_size
    assert size > MESSAGES * COUNTERS * 16
    print(f"{size:,} bytes in {took_s:.1f} s, at most {peak:,} bytes of memory")
    assert peak < PEAK_BYTES_MAX
    found = world.query("SELECT COUNT(*), COUNT(DISTINCT record_time), MIN(counter_value) FROM pm_counter_data")
    assert found == [(rows, MESSAGES, float(OBJECT_COUNTERS - len(wanted)))]
    assert len(messages_of(pipeline_servers.topic_url)) == rows
    assert world.query("SELECT retry_count, file_size FROM file_processing_state") == [(0, size)]
    assert world.query("SELECT counters FROM pm_file_revision") == [(MESSAGES * COUNTERS,)]
