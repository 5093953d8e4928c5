"""What stands in a message is what we read, whoever wrote it, and by whichever version of the schema."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any
from zlib import crc32

import capnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pm_messages import (
    SCHEMA,
    SCHEMA_FILE,
    Reading,
    bits,
    built_by_pycapnp,
    by_pycapnp,
    joined,
    opened,
    reading,
    readings,
    several,
    written,
)

from headrace_pm.network.message_writer import MessageWriter, Pads, WrittenObject
from headrace_pm.wire.byte_source import FileBytes
from headrace_pm.wire.counter_file import CounterFile
from headrace_pm.wire.counter_message import CounterDefaults

FLOATS = st.floats(allow_nan=True, allow_infinity=True, width=64)
COUNTERS = st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), FLOATS), max_size=40)


@st.composite
def objects(draw: st.DrawFn) -> WrittenObject:
    pairs = draw(COUNTERS)
    return WrittenObject(
        draw(st.integers(0, 10_413_792_000_000 - 1)),
        draw(st.integers(-(2**31), 2**31 - 1)),
        draw(st.text(st.characters(codec="utf-8"), max_size=30)).encode(),
        draw(st.integers(-(2**63), 2**63 - 1)),
        np.array([number for number, _ in pairs], np.int32),
        np.array([value for _, value in pairs], np.float64),
    )


def counted(source: list[WrittenObject]) -> list[Reading]:
    """What must be read: objects without counters are nobody's."""
    return [reading(each) for each in source if len(each.ids)]


def in_order(found: list[Reading]) -> list[tuple[Any, ...]]:
    """All counters, each with its object: where objects begin and end does not matter."""
    return [
        (each.time, each.duration, each.location, each.cell, *pair)
        for each in found
        for pair in zip(each.ids, each.bits, strict=True)
    ]


@settings(max_examples=120, deadline=None)
@given(st.lists(objects(), max_size=12), st.sampled_from((0, 4, 16, 64)), st.sampled_from(Pads), st.integers(1, 50))
def test_what_we_write_both_read(source: list[WrittenObject], words: int, pads: Pads, size: int) -> None:
    content = MessageWriter(words, pads).write(b"HN01", source)
    file = opened(content)
    assert (file.units, file.counters) == (["HN01"], sum(len(each.ids) for each in source))
    assert in_order(readings(file, size)) == in_order(counted(source))
    assert by_pycapnp(content) == ("HN01", counted(source))


@settings(max_examples=60, deadline=None)
@given(st.lists(objects(), max_size=12), st.text(st.characters(codec="utf-8"), max_size=20))
def test_what_pycapnp_writes_we_read(source: list[WrittenObject], unit: str) -> None:
    file = opened(built_by_pycapnp(unit, source).to_bytes())
    assert file.units == [unit]
    assert in_order(readings(file)) == in_order(counted(source))


def test_a_message_of_pycapnp_in_many_segments_is_read() -> None:
    source = several(200, 130)
    content = built_by_pycapnp("HN01", source).to_bytes()
    assert int.from_bytes(content[:4], "little") >= 3
    assert joined(readings(opened(content))) == counted(source)


def test_the_layout_is_the_one_that_the_compiler_makes() -> None:
    found = {}
    for name in ("CounterValue", "CounterData", "CounterDataCollection"):
        node = getattr(SCHEMA, name).schema.node
        slots = {field.name: field.slot.offset for field in node.struct.fields}
        found[name] = (node.struct.dataWordCount, node.struct.pointerCount, slots)
    assert found == {
        "CounterValue": (2, 0, {"id": 0, "value": 1}),
        "CounterData": (3, 2, {"time": 0, "duration": 2, "location": 0, "cell": 2, "data": 1}),
        "CounterDataCollection": (0, 2, {"unit": 0, "data": 1}),
    }


def schema(folder: Path, *changes: tuple[str, str]) -> Any:
    """The schema of files with some of its lines changed."""
    text = SCHEMA_FILE.read_text("utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    # pycapnp knows a schema by its id for as long as the process lives.
    number = 0x8000_0000_0000_0000 | crc32(repr(changes).encode())
    path = folder / "changed.capnp"
    path.write_text(text.replace("0xd4a8c1f05b7e9236", hex(number)), "utf-8")
    return capnp.load(str(path))


def test_a_file_of_an_older_schema_has_defaults_for_what_it_lacks(tmp_path: Path) -> None:
    older = schema(tmp_path, ("  cell @3 :Int64;", "  cell @3 :Void;"))
    message = older.CounterDataCollection.new_message()
    message.unit = "HN01"
    (each,) = message.init("data", 1)
    each.time, each.duration, each.location = 5, 60, "Cell=1"
    each.init("data", 2)[1].id = 9
    content = message.to_bytes()
    assert readings(opened(content)) == [Reading(5, 60, b"Cell=1", 0, (0, 9), (0, 0))]


def test_counters_of_an_older_schema_have_no_value(tmp_path: Path) -> None:
    older = schema(tmp_path, ("  value @1 :Float64;", "  value @1 :Void;"))
    message = older.CounterDataCollection.new_message()
    (each,) = message.init("data", 1)
    for number, counter in enumerate(each.init("data", 3)):
        counter.id = 10 + number
    content = message.to_bytes()
    expected = [Reading(0, 0, b"", 0, (10, 11, 12), (0, 0, 0))]
    assert readings(opened(content)) == expected
    assert by_pycapnp(content)[1] == expected


def test_a_file_of_a_newer_schema_is_read_as_far_as_it_is_known(tmp_path: Path) -> None:
    newer = schema(
        tmp_path,
        ("  value @1 :Float64;", "  value @1 :Float64;\n  state @2 :Int64;\n  remark @3 :Text;"),
        ("  data @4 :List(CounterValue);", "  data @4 :List(CounterValue);\n  note @5 :Text;\n  flags @6 :UInt64;"),
        ("  data @1 :List(CounterData);", "  data @1 :List(CounterData);\n  version @2 :Int32;"),
    )
    source = several(7, 30)
    message = built_by_pycapnp("HN01", source, newer)
    message.version = 3
    for each in message.data:
        each.note, each.flags = "later", 77
        for counter in each.data:
            counter.state, counter.remark = 5, "more"
    assert joined(readings(opened(message.to_bytes()))) == counted(source)


def test_defaults_of_a_schema_are_applied(tmp_path: Path) -> None:
    changed = schema(
        tmp_path,
        ("  id @0 :Int32;", "  id @0 :Int32 = -7;"),
        ("  value @1 :Float64;", "  value @1 :Float64 = 2.5;"),
        ("  duration @1 :Int32;", "  duration @1 :Int32 = 900;"),
        ("  time @0 :Int64;", "  time @0 :Int64 = 1000;"),
        ("  cell @3 :Int64;", "  cell @3 :Int64 = -1;"),
    )
    message = changed.CounterDataCollection.new_message()
    message.unit = "HN01"
    first, second = message.init("data", 2)
    first.init("data", 2)[1].value = -0.125
    second.time, second.duration, second.cell = 3, 60, 12
    second.init("data", 1)[0].id = 44
    content = message.to_bytes()
    expected = [
        Reading(1_000, 900, b"", -1, (-7, -7), bits([2.5, -0.125])),
        Reading(3, 60, b"", 12, (44,), bits([2.5])),
    ]
    assert by_pycapnp(content, changed)[1] == expected
    defaults = CounterDefaults(time=1_000, duration=900, cell=-1, id=-7, value=2.5)
    assert readings(opened(content, defaults)) == expected


UPGRADED = """
struct Ids { time @0 :Int64; duration @1 :Int32; location @2 :Text; cell @3 :Int64; data @4 :List(%s); }
struct Collection { unit @0 :Text; data @1 :List(Ids); }
"""


@pytest.mark.parametrize(
    ("kind", "values", "ids"),
    [
        ("Int32", [5, -6, 7], (5, -6, 7)),
        ("UInt64", [5, (1 << 40) | 6], (5, 6)),
        ("Int16", [5, 6, 7], (0, 0, 0)),
        ("Int8", [5, 6], (0, 0)),
        ("Text", ["a", "b"], (0, 0)),
        ("Void", [None, None], (0, 0)),
    ],
)
def test_a_list_that_became_one_of_structs_is_read(
    tmp_path: Path, kind: str, values: list[Any], ids: tuple[int, ...]
) -> None:
    path = tmp_path / "upgraded.capnp"
    number = 0x9000_0000_0000_0000 | crc32(kind.encode())
    path.write_text(f"@{hex(number)};{UPGRADED % kind}", "utf-8")
    message = capnp.load(str(path)).Collection.new_message()
    message.unit = "HN01"
    for cell, each in enumerate(message.init("data", 2)):
        each.cell = cell
        each.data = values
    content = message.to_bytes()
    found = readings(opened(content))
    assert found == [Reading(0, 0, b"", cell, ids, (0,) * len(ids)) for cell in range(2)]
    assert by_pycapnp(content)[1] == found


def test_lists_of_different_encodings_in_one_file_are_read() -> None:
    """Elements of half a word beside those of two: neither is read with the step of the other."""
    segment = bytearray(MessageWriter().write(b"", [written([1, 2, 3, 4], [0.5] * 4), written([8, 9], [1.5] * 2)])[8:])
    words = np.frombuffer(segment, "<u8")
    (first,) = (each for each in range(len(words)) if int(words[each]) >> 32 == 7 | 8 << 3)
    words[first] = int(words[first]) & 0xFFFF_FFFF | (4 | 4 << 3) << 32
    content = bytes(4) + (len(words)).to_bytes(4, "little") + words.tobytes()
    found = readings(opened(content))
    assert found == by_pycapnp(content)[1]
    # The tag of the list is its first two numbers now.
    assert [each.ids for each in found] == [(16, 2, 1, 0), (8, 9)]


def test_null_pointers_are_nothing() -> None:
    for words in ([0], [2 << 48, 0, 0], [0, 0]):
        body = b"".join(word.to_bytes(8, "little") for word in words)
        file = opened(bytes(4) + len(words).to_bytes(4, "little") + body)
        assert (file.units, file.counters, file.batch_count()) == ([""], 0, 0)


def test_a_unit_that_is_no_utf_8_is_replaced_and_locations_are_left_alone() -> None:
    file = opened(MessageWriter().write(b"HN\xff", [written([1], [2.0], location=b"Cell=\xfe\x00a")]))
    assert file.units == ["HN�"]
    assert readings(file)[0].location == b"Cell=\xfe\x00a"


def test_messages_of_one_file_are_read_one_after_the_other() -> None:
    both = MessageWriter().write(b"A", several(2, 30)) + MessageWriter(16).write(b"B", several(3, 11))
    file = opened(both)
    assert (file.units, file.counters, file.batch_count(20)) == (["A", "B"], 93, 5)
    blocks = list(file.blocks(20))
    assert [(block.unit, block.batch, block.position, len(block.counters)) for block in blocks] == [
        ("A", 0, 0, 60),
        ("B", 3, 60, 20),
        ("B", 4, 80, 13),
    ]


def test_memory_does_not_depend_on_the_size_of_a_file(tmp_path: Path) -> None:
    """A file of 1 GB: one object with 67 million counters that are all zero."""
    count = (1 << 26) - 100
    start = MessageWriter().write(b"HN01", [written([], [])])
    words = np.frombuffer(start, "<u8").copy()
    (pointer,) = (each for each in range(len(words)) if int(words[each]) >> 32 == 7)
    words[pointer] = int(words[pointer]) & 0xFFFF_FFFF | (7 | 2 * count << 3) << 32
    words[-1] = count << 2 | 2 << 32
    words.view("<u4")[1] = len(words) - 1 + 2 * count
    path = tmp_path / "large.dat"
    with path.open("wb") as file:
        file.write(words.tobytes())
        file.truncate(len(words) * 8 + 16 * count)
    assert path.stat().st_size > 1_000_000_000
    tracemalloc.start()
    with FileBytes(path) as source:
        opened_file = CounterFile(source)
        assert opened_file.counters == count
        last = opened_file.batch_count() - 30
        assert sum(len(block.counters) for block in opened_file.blocks(since=last)) == count - 1_000 * last
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000
