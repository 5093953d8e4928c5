"""Messages for tests: written by us or by pycapnp, read by us or by pycapnp, as the same plain values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import capnp
import numpy as np

from headrace_pm.network.message_writer import WrittenObject
from headrace_pm.wire import counter_file
from headrace_pm.wire.byte_source import ByteSource, HeldBytes
from headrace_pm.wire.counter_file import BatchBlock, CounterFile
from headrace_pm.wire.counter_message import CounterDefaults
from headrace_pm.wire.packed import unpack

capnp.remove_import_hook()
SCHEMA_FILE = Path(counter_file.__file__).with_name("counter.capnp")
SCHEMA = capnp.load(str(SCHEMA_FILE))
LIMIT_WORDS = 1 << 40


@dataclass(frozen=True)
class Reading:
    """One object as it was read, with its counters: what two readers of the same file must agree upon."""

    time: int
    duration: int
    location: bytes
    cell: int
    ids: tuple[int, ...]
    # The bits of the values: a NaN is equal to itself only so.
    bits: tuple[int, ...]


def bits(values: Any) -> tuple[int, ...]:
    return tuple(np.asarray(values, "<f8").view("<u8").tolist())


def reading(each: WrittenObject) -> Reading:
    ids = tuple(each.ids.tolist())
    return Reading(each.time, each.duration, each.location, each.cell, ids, bits(each.values))


def written(ids: list[int], values: list[float], **fields: Any) -> WrittenObject:
    """An object with these counters."""
    made = WrittenObject(1_700_000_000_000, 900, b"Cell=1", 7, np.array(ids, np.int32), np.array(values, np.float64))
    return replace(made, **fields)


def several(objects: int, counters: int) -> list[WrittenObject]:
    """So many objects, all of whose counters differ."""
    return [
        written(
            [1_000 * number + each for each in range(counters)],
            [number + each / 8 for each in range(counters)],
            time=1_700_000_000_000 + number,
            location=b"Cell=%d" % number,
            cell=number,
        )
        for number in range(objects)
    ]


def plain_of(content: bytes) -> bytes:
    unpacked = bytearray()
    unpack(HeldBytes(content), unpacked.extend)
    return bytes(unpacked)


def opened(content: bytes | ByteSource, defaults: CounterDefaults | None = None) -> CounterFile:
    """A file by its bytes, plain or packed."""
    source = HeldBytes(content) if isinstance(content, bytes) else content
    if isinstance(content, bytes) and counter_file.is_packed(source):
        source = HeldBytes(plain_of(content))
    return CounterFile(source, defaults)


def readings(file: CounterFile, size: int = 1_000) -> list[Reading]:
    """What stands in a file, object by object; those without counters are not there."""
    found: list[Reading] = []
    for block in file.blocks(size):
        found.extend(_readings(block))
    return found


def _readings(block: BatchBlock) -> list[Reading]:
    counters = block.counters
    objects = counters.objects
    edges = np.searchsorted(counters.object_of, np.arange(len(objects.locations) + 1))
    return [
        Reading(
            int(objects.times[number]),
            int(objects.durations[number]),
            objects.locations[number],
            int(objects.cells[number]),
            tuple(counters.ids[begin:end].tolist()),
            bits(counters.values[begin:end]),
        )
        for number, (begin, end) in enumerate(pairwise(edges.tolist()))
        if begin < end
    ]


def joined(found: list[Reading]) -> list[Reading]:
    """Pieces of the same object as one: an object may lie in two blocks."""
    whole: list[Reading] = []
    for each in found:
        if whole and replace(whole[-1], ids=(), bits=()) == replace(each, ids=(), bits=()):
            whole[-1] = replace(each, ids=whole[-1].ids + each.ids, bits=whole[-1].bits + each.bits)
        else:
            whole.append(each)
    return whole


def by_pycapnp(content: bytes, schema: Any = SCHEMA) -> tuple[str, list[Reading]]:
    """Unit and objects with counters, as pycapnp reads a plain message."""
    reader = schema.CounterDataCollection.from_bytes(content, traversal_limit_in_words=LIMIT_WORDS)
    with reader as collection:
        found = []
        for each in collection.data:
            counters = each.data
            if not len(counters):
                continue
            pairs = [(counter.id, counter.value) for counter in counters]
            location = each.location.encode()
            ids, values = zip(*pairs, strict=True)
            found.append(Reading(each.time, each.duration, location, each.cell, ids, bits(values)))
        return collection.unit, found


def built_by_pycapnp(unit: str, objects: list[WrittenObject], schema: Any = SCHEMA) -> Any:
    """The builder of a message; its `to_bytes` and `to_bytes_packed` may be called once each."""
    message = schema.CounterDataCollection.new_message()
    message.unit = unit
    listed = message.init("data", len(objects))
    for each, source in zip(listed, objects, strict=True):
        each.time, each.duration, each.cell = source.time, source.duration, source.cell
        each.location = source.location.decode()
        counters = each.init("data", len(source.ids))
        for counter, number, value in zip(counters, source.ids.tolist(), source.values.tolist(), strict=True):
            counter.id, counter.value = number, value
    return message
