"""What the sinks must hold: a line of JSON for each row of `pm_counter_data`, as the generator writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec


class CounterKey(NamedTuple):
    """The primary key of `pm_counter_data`."""

    ne_id: int
    record_time: int
    duration: int
    counter_id: int
    rat_type: str
    obj_hash: str


class TrueRow(msgspec.Struct, frozen=True, gc=False):
    """A row. `record_time` is in ms since 1970, `obj_hash` in hexadecimal digits, a value that is no number is None;
    `file`, `revision` and `batch` (of 1,000) say where it comes from."""

    ne_id: int
    record_time: int
    duration: int
    counter_id: int
    counter_value: float | None
    group_code: str
    rat_type: str
    cell_index: int
    obj_hash: str
    extra_field: dict[str, str]
    file: str
    revision: int
    batch: int

    @property
    def key(self) -> CounterKey:
        return CounterKey(self.ne_id, self.record_time, self.duration, self.counter_id, self.rat_type, self.obj_hash)


def read_truth(path: Path) -> Iterator[TrueRow]:
    """The rows of one file of truth, in its order."""
    decoder = msgspec.json.Decoder(TrueRow)
    with path.open("rb") as file:
        for line in file:
            yield decoder.decode(line)


def true_rows(*paths: Path) -> dict[CounterKey, TrueRow]:
    """The rows that are there when the uploads of all these were taken in, one after the other: the last one stays."""
    return {row.key: row for path in paths for row in read_truth(path)}
