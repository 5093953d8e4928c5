"""The form `rowbinary` from end to end, a consumer that knows nothing but its page, and what ClickHouse parses."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pm_clickhouse_world import connected, table_rows
from pm_kafka_world import headers_of, messages_of, settings_of
from pm_pipeline_world import PipelineServers, PipelineWorld, row_values, table_values, true_values
from waiting import eventually

from headrace.errors import HeadraceError
from headrace_pm.clickhouse.settings import ClickHouseSettings
from headrace_pm.clickhouse.statements import ddl_statements
from headrace_pm.kafka.forms import RecordForm
from headrace_pm.network.generated_folder import FolderPlan
from headrace_pm.network.truth import CounterKey

PLAN = FolderPlan(files=6, counters=2_300, seed=11, packed=2, again=2)
# As docs/pm.md has them, in this order: little endian, a text with its length before it (LEB128), a NULL as a 1.
COLUMNS = {
    "ne_id": "i",
    "record_time": "q",
    "duration": "i",
    "counter_id": "i",
    "counter_value": "NULL d",
    "group_code": "text",
    "rat_type": "text",
    "cell_index": "q",
    "obj_hash": "8s",
    "extra_field": "text",
    "version": "Q",
}


class ForeignReader:
    """Reads rows as another program would."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def rows(self) -> Iterator[dict[str, Any]]:
        while self._at < len(self._data):
            row = {name: self._value(kind) for name, kind in COLUMNS.items()}
            yield {**row, "obj_hash": row["obj_hash"].hex(), "extra_field": json.loads(row["extra_field"])}

    def _value(self, kind: str) -> Any:
        if kind == "text":
            return self._take(self._length()).decode()
        if kind.startswith("NULL"):
            return None if self._take(1) == b"\1" else self._value(kind.removeprefix("NULL "))
        return struct.unpack(f"<{kind}", self._take(struct.calcsize(f"<{kind}")))[0]

    def _length(self) -> int:
        length = shift = 0
        while True:
            (byte,) = self._take(1)
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return length

    def _take(self, count: int) -> bytes:
        self._at += count
        assert self._at <= len(self._data)
        return self._data[self._at - count : self._at]


def read_by_others(topic_url: str) -> dict[CounterKey, tuple[object, ...]]:
    """What somebody has who keeps one copy of each batch, and of each key the row with the highest version."""
    batches: dict[tuple[str, ...], bytes] = {}
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for message in messages_of(topic_url):
        headers, value = headers_of(message), message.value() or b""
        assert set(headers) == {"file", "revision", "batch", "rows", "crc"}
        assert int(headers["crc"]) == crc32(value)
        named = headers["file"], headers["revision"], headers["batch"]
        assert batches.setdefault(named, value) == value, "a repeat has the same bytes"
        rows = list(ForeignReader(value).rows())
        assert len(rows) == int(headers["rows"])
        assert {str(row["ne_id"]) for row in rows} == {(message.key() or b"").decode()}
        for row in rows:
            key = tuple(row[name] for name in CounterKey._fields)
            if key not in newest or row["version"] >= newest[key]["version"]:
                newest[key] = row
    return row_values(newest.values())


async def test_every_row_arrives_by_rowbinary_and_others_can_read_it(
    pipeline_servers: PipelineServers, clickhouse_database: str, tmp_path: Path
) -> None:
    world = PipelineWorld(pipeline_servers, tmp_path, PLAN)
    await world.prepare()
    async with (
        world.service(
            "clickhouse", "clickhouse.log", PM_CLICKHOUSE_URL=clickhouse_database, PM_CLICKHOUSE_BLOCK_S="0.3"
        ),
        world.service("all", PM_KAFKA_FORM="rowbinary"),
        connected(settings_of(pipeline_servers.topic_url, clickhouse_database)) as clickhouse,
    ):
        world.upload()
        await eventually(lambda: world.are_ended(PLAN.files, 0), world.shown)
        world.upload_again()
        await eventually(lambda: world.are_ended(PLAN.files, 0) and not world.left(), world.shown)
        truth = true_values(world.truth())
        assert read_by_others(pipeline_servers.topic_url) == truth
        assert table_values(pipeline_servers.database) == truth

        async def all_in() -> bool:
            return row_values(await table_rows(clickhouse)) == truth

        await eventually(all_in, "ClickHouse has the same rows")


@pytest.mark.parametrize("form", list(RecordForm))
async def test_clickhouse_parses_what_is_shipped_for_its_kafka_engine(
    clickhouse_database: str, form: RecordForm
) -> None:
    """chDB makes the table and reads nothing by it; what the views make of records is in `test_pm_clickhouse.py`."""
    settings = ClickHouseSettings(clickhouse_url=clickhouse_database, kafka_topic="o'clock")
    statements = ddl_statements(settings, form)
    assert len(statements) == 5
    async with connected(settings) as clickhouse:
        for text in statements:
            tree = " ".join(str(row[0]) for row in await clickhouse.rows(f"EXPLAIN AST {text}"))
            assert tree.startswith("CreateQuery"), text
        queue = statements[2]
        assert "Function Kafka" in " ".join(str(row[0]) for row in await clickhouse.rows(f"EXPLAIN AST {queue}"))
        for right, wrong in (("kafka_topic_list", "kafka_topic_lost"), ("Float64", "Float65")):
            with pytest.raises(HeadraceError, match=wrong):
                await clickhouse.command(queue.replace(right, wrong))
        # The table is there, and then chDB says that nothing runs in its background. The views find its columns.
        with pytest.raises(HeadraceError, match="Shutdown was called"):
            await clickhouse.command(queue)
        for view in statements[3:]:
            await clickhouse.command(view)
        [[count]] = await clickhouse.rows("SELECT count() FROM system.tables WHERE name LIKE 'pm_counter_queue%'")
        assert count == 3
