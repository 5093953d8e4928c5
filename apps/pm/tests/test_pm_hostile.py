"""A file can say what it likes: it is refused with a reason, in bounded memory, or read as pycapnp reads it."""

from __future__ import annotations

import os
import random
import time
import tracemalloc
from collections import Counter

import capnp
import numpy as np
import pytest
from pm_messages import by_pycapnp, joined, opened, plain_of, reading, readings, several, written
from pm_mutations import mutated, seeds

from headrace_pm.counters.batch import batches
from headrace_pm.counters.dictionary import DictionaryRows, NetworkDictionary
from headrace_pm.network.damage import DAMAGES, damaged
from headrace_pm.network.message_writer import MessageWriter, Pads
from headrace_pm.wire.byte_source import HeldBytes
from headrace_pm.wire.counter_file import is_packed
from headrace_pm.wire.counter_message import TEXT_BYTES_MAX, TIME_MS_END
from headrace_pm.wire.file_errors import BadFile, IncompleteFile

# At full size (HEADRACE_TORTURE=100) these are 100,000 files.
FILES = 1_000 * int(os.environ.get("HEADRACE_TORTURE", "1"))
SECONDS_MAX, BYTES_MAX = 5.0, 12_000_000


def message(*words: int, segments: tuple[int, ...] = ()) -> bytes:
    """A message of these words, which may be cut into segments."""
    sizes = segments or (len(words),)
    table = b"".join(size.to_bytes(4, "little") for size in (len(sizes) - 1, *sizes))
    return table + bytes(-len(table) % 8) + b"".join(word.to_bytes(8, "little") for word in words)


def list_pointer(offset: int, code: int, count: int) -> int:
    return 1 | (offset & 0x3FFF_FFFF) << 2 | (code | count << 3) << 32


def tag(count: int, data: int, pointers: int) -> int:
    return count << 2 | (data | pointers << 16) << 32


def far(segment: int, word: int, double: bool = False) -> int:
    return 2 | double << 2 | word << 3 | segment << 32


ROOT = 2 << 48
OBJECT = tag(1, 3, 2)


def with_counters(pointer: int, *rest: int) -> bytes:
    """A message with one object, whose pointer to counters this is; what it leads to begins at the next word."""
    return message(ROOT, 0, list_pointer(0, 7, 5), OBJECT, 0, 0, 0, 0, pointer, *rest)


HOSTILE = {
    "a root outside": (message(2 << 48 | 100 << 2, 0, 0), "root: it is outside of its segment"),
    "a root in front": (message(2 << 48 | (-9 & 0x3FFF_FFFF) << 2, 0), "root: it is outside of its segment"),
    "a root that is a list": (message(list_pointer(0, 2, 8), 0), "root: no struct"),
    "a root that is a capability": (message(3, 0), "root: a capability"),
    "a unit that is no text": (message(ROOT, list_pointer(1, 4, 1), 0, 0), "unit: no text"),
    "a unit without a byte": (message(ROOT, list_pointer(1, 2, 0), 0, 0), "unit: a text without its end"),
    "a unit without an end": (message(ROOT, list_pointer(1, 2, 8), 0, 2**64 - 1), "unit: a text without its end"),
    "a unit outside": (message(ROOT, list_pointer(1, 2, 9), 0, 0), "unit: it is outside of its segment"),
    "objects that are a struct": (message(ROOT, 0, 1 << 32, 0), "data: no list"),
    "objects that are bits": (message(ROOT, 0, list_pointer(0, 1, 1), 0), "data: a list of bits"),
    "objects outside": (message(ROOT, 0, list_pointer(0, 7, 6), OBJECT, 0, 0, 0, 0, 0), "data: it is outside"),
    "objects without a tag": (message(ROOT, 0, list_pointer(0, 7, 0)), "data: it is outside of its segment"),
    "a tag that is a list": (message(ROOT, 0, list_pointer(0, 7, 1), list_pointer(0, 2, 1), 0), "data: its elements"),
    "more objects than words": (
        message(ROOT, 0, list_pointer(0, 7, 5), tag(2, 3, 2), 0, 0, 0, 0, 0),
        "data: more elem",
    ),
    "a billion objects": (message(ROOT, 0, list_pointer(0, 7, 0), tag(2**30 - 1, 0, 0)), "its lists together"),
    "a billion objects of pointers": (message(ROOT, 0, list_pointer(0, 7, 1), tag(2**30 - 1, 0, 2), 0), "data: more"),
    "half a billion nothings": (message(ROOT, 0, list_pointer(0, 0, 2**29 - 1)), "its lists together"),
    "half a billion counters of nothing": (with_counters(list_pointer(0, 0, 2**29 - 1)), "its lists together"),
    "a billion counters without words": (with_counters(list_pointer(0, 7, 0), tag(2**30 - 1, 0, 0)), "its lists tog"),
    "half a billion numbers": (with_counters(list_pointer(0, 5, 2**29 - 1)), "object 0, its counters: it is outside"),
    "counters in front": (with_counters(list_pointer(-30, 7, 2)), "object 0, its counters: it is outside"),
    "counters that are bits": (with_counters(list_pointer(0, 1, 3), 7), "object 0, its counters: a list of bits"),
    "objects as their own counters": (with_counters(list_pointer(-6, 7, 5)), "its lists together"),
    "no such segment": (with_counters(far(7, 0)), "object 0, its counters: there is no such segment"),
    "a landing pad outside": (with_counters(far(0, 9)), "its landing pad is outside"),
    "half a landing pad": (with_counters(far(0, 9, double=True), 0), "its landing pad is outside"),
    "a landing pad that is null": (with_counters(far(0, 9), 0), "its landing pad leads nowhere"),
    "a landing pad that is far": (with_counters(far(0, 9), far(0, 9)), "its landing pad leads nowhere"),
    "a double pad that does not lead on": (with_counters(far(0, 9, True), 1, 1), "its landing pad does not lead on"),
    "a double pad that is double": (with_counters(far(0, 9, True), far(0, 9, True), 1), "does not lead on"),
    "a double pad to no segment": (with_counters(far(0, 9, True), far(3, 0), 1), "there is no such segment"),
    "a double pad for a far one": (with_counters(far(0, 9, True), far(0, 0), far(0, 9)), "its landing pad leads now"),
}


@pytest.mark.parametrize(("content", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_a_pointer_that_lies_is_refused_by_its_name(content: bytes, reason: str) -> None:
    with pytest.raises(BadFile) as raised:
        opened(content)
    assert reason in str(raised.value)


def test_the_same_pointers_are_right_when_they_tell_the_truth() -> None:
    """What stands above is refused for its lie alone: the same messages without it are read."""
    value = int(np.array(2.5).view(np.uint64))
    single = with_counters(far(0, 9), list_pointer(0, 7, 2), tag(1, 2, 0), 5, value)
    double = with_counters(far(0, 9, True), far(0, 11), list_pointer(0, 7, 2), tag(1, 2, 0), 5, value)
    near = with_counters(list_pointer(0, 7, 2), tag(1, 2, 0), 5, value)
    for content in (single, double, near):
        assert [(each.ids, each.bits) for each in readings(opened(content))] == [((5,), (value,))]


def test_an_object_is_called_by_its_number() -> None:
    objects = several(2_500, 1)
    objects[2_203] = written([1], [1.0], time=TIME_MS_END)
    with pytest.raises(BadFile, match="object 2203, its time: before 1970 or after 2299"):
        opened(MessageWriter(512, Pads.DOUBLE).write(b"HN01", objects))
    objects[2_203] = written([1], [1.0], time=TIME_MS_END - 1)
    assert opened(MessageWriter().write(b"HN01", objects)).counters == 2_500


@pytest.mark.parametrize("moment", [-1, TIME_MS_END, 2**63 - 1, -(2**63)])
def test_a_time_that_no_sink_can_hold_is_refused(moment: int) -> None:
    with pytest.raises(BadFile, match="its time"):
        opened(MessageWriter().write(b"HN01", [written([1], [1.0], time=moment)]))
    assert opened(MessageWriter().write(b"HN01", [written([], [], time=moment)])).counters == 0


def test_a_text_has_a_limit() -> None:
    longest = b"x" * (TEXT_BYTES_MAX - 1)
    assert readings(opened(MessageWriter().write(b"", [written([1], [1.0], location=longest)])))[0].location == longest
    with pytest.raises(BadFile, match="its location: a text of more than 8,192 bytes"):
        opened(MessageWriter().write(b"", [written([1], [1.0], location=longest + b"x")]))
    with pytest.raises(BadFile, match="unit: a text of more than 8,192 bytes"):
        opened(MessageWriter().write(longest + b"x", []))


def test_shared_counters_are_counted_for_each_pointer_to_them() -> None:
    """A thousand objects with one list of 100,000 counters: 100 million in a file of 1.6 MB."""
    count = 100_000
    objects = several(1_000, 0)
    words = np.frombuffer(MessageWriter().write(b"", objects), "<u8").copy()
    end = len(words) - 1
    first = next(each for each in range(len(words)) if int(words[each]) == tag(1_000, 3, 2)) + 5
    for pointer in range(first, first + 5_000, 5):
        words[pointer] = list_pointer(end - pointer, 7, 2 * count)
    counters = np.zeros(2 * count + 1, np.uint64)
    counters[0] = tag(count, 2, 0)
    body = np.concatenate((words[1:], counters))
    content = message(*body.tolist())
    with pytest.raises(BadFile, match="its lists together are longer than the"):
        opened(content)


def test_wide_objects_do_not_fill_the_memory() -> None:
    """40 objects as wide as can be: 42 MB, and nothing in it."""
    count, width = 40, 2 * 65_535
    words = np.zeros(4 + count * width, np.uint64)
    words[0], words[2], words[3] = ROOT, list_pointer(0, 7, count * width), tag(count, 65_535, 65_535)
    content = message(0)[:4] + len(words).to_bytes(4, "little") + words.tobytes()
    tracemalloc.start()
    assert opened(content).counters == 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < BYTES_MAX


def test_long_locations_do_not_fill_the_memory() -> None:
    """24 MB of locations that all differ, one for each counter."""
    count = 3_000
    objects = [written([1], [1.0], location=b"%d=" % each + b"x" * (TEXT_BYTES_MAX - 9)) for each in range(count)]
    file = opened(MessageWriter().write(b"HN01", objects))
    known = NetworkDictionary(DictionaryRows({"HN01": 1}, {(1, "2"): "G"}, {"rat_type": "2"}))
    tracemalloc.start()
    assert sum(len(batch) for batch in batches(file, known)) == count
    left, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left < 1_000_000
    assert peak < 50_000_000


def test_one_wide_list_does_not_slow_down_the_others() -> None:
    """Among a thousand lists of counters one whose element is as wide as can be: the others are read together still."""
    objects = several(1_000, 50)
    words = np.frombuffer(MessageWriter().write(b"", objects), "<u8").copy()
    first = next(each for each in range(len(words)) if int(words[each]) == tag(1_000, 3, 2)) + 5
    # The counters of the first object become one element of 65,535 words, which lies behind all others.
    words[first] = list_pointer(len(words) - 1 - first, 7, 65_535)
    wide = np.zeros(65_536, np.uint64)
    wide[0], wide[1], wide[2] = tag(1, 65_535, 0), 77, np.array(0.5).view(np.uint64)
    file = opened(message(*np.concatenate((words[1:], wide)).tolist()))
    blocks = list(file.blocks())
    assert [len(block.counters) for block in blocks] == [*[6_000] * 8, 1_000, 951]
    assert blocks[0].counters.ids[:3].tolist() == [77, 1_000, 1_001]
    assert joined(readings(file))[1:] == [reading(each) for each in objects[1:]]


def test_a_damaged_file_of_the_generator_is_bad() -> None:
    plain = MessageWriter().write(b"HN01", several(40, 30))
    for which in range(len(DAMAGES)):
        with pytest.raises(BadFile):
            opened(damaged(plain, which))


def outcome(content: bytes) -> str:
    """Read a file whole and hold what was read against pycapnp; how that ended."""
    try:
        file = opened(content)
        found = joined(readings(file))
    except BadFile:
        return "bad"
    except IncompleteFile:
        return "incomplete"
    assert file.counters <= 2 * len(content) * (64 if is_packed(HeldBytes(content)) else 1)
    if len(file.units) > 1:
        return "several"
    plain = plain_of(content) if is_packed(HeldBytes(content)) else content
    try:
        unit, expected = by_pycapnp(plain)
    except UnicodeDecodeError:
        return "no text"
    assert (file.units, found) == ([unit], joined(expected))
    return "read"


def test_mutated_files_are_refused_or_read_as_pycapnp_reads_them() -> None:
    chance = random.Random(20_261_118)
    stock = seeds()
    seen: Counter[str] = Counter()
    for number in range(FILES):
        content = mutated(stock[number % len(stock)], chance)
        started = time.process_time()
        try:
            seen[outcome(content)] += 1
        except capnp.KjException as error:
            raise AssertionError(f"file {number}: we read what pycapnp refuses: {error}") from None
        assert time.process_time() - started < SECONDS_MAX, f"file {number}"
    assert {"bad", "incomplete", "read", "several"} <= set(seen)
    assert sum(seen.values()) == FILES


def test_mutated_files_take_bounded_memory() -> None:
    chance = random.Random(7)
    stock = seeds()
    tracemalloc.start()
    for number in range(FILES // 10):
        content = mutated(stock[number % len(stock)], chance)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            for _ in opened(content).blocks():
                pass
        except (BadFile, IncompleteFile):
            pass
        assert tracemalloc.get_traced_memory()[1] - before < BYTES_MAX, f"file {number}"
    tracemalloc.stop()
