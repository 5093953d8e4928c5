"""Batches are cut by position before the scope is asked, so a replay cuts the same ones."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pm_messages import opened, several, written
from pm_rows import rows

from headrace_pm.counters.batch import batches
from headrace_pm.counters.dictionary import DictionaryRows, NetworkDictionary, UnknownElement
from headrace_pm.network.message_writer import MessageWriter, WrittenObject

UNITS = {"HN01": 11, "HN02": 12}


def dictionary(scope: dict[int, str]) -> NetworkDictionary:
    return NetworkDictionary(
        DictionaryRows(
            UNITS, {(each, "2"): group for each, group in scope.items()}, {"rat_type": "2"}, {"gNodeB": "5G"}
        )
    )


def all_counters(source: list[WrittenObject]) -> list[tuple[int, int]]:
    return [(each.cell, number) for each in source for number in each.ids.tolist()]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 25), max_size=12), st.integers(1, 40), st.integers(1, 5), st.integers(0, 4))
def test_batch_n_is_the_same_wherever_reading_begins(sizes: list[int], size: int, every: int, since: int) -> None:
    source = [
        written(list(range(100 * cell, 100 * cell + count)), [1.0] * count, cell=cell)
        for cell, count in enumerate(sizes)
    ]
    everything = all_counters(source)
    scope = {number: "G" for _, number in everything if number % every == 0}
    file = opened(MessageWriter(32).write(b"HN01", source))
    known = dictionary(scope)
    found = list(batches(file, known, size))
    assert [batch.number for batch in found] == list(range(-(-len(everything) // size)))
    assert file.batch_count(size) == len(found)
    for batch in found:
        mine = everything[size * batch.number : size * (batch.number + 1)]
        assert (batch.position, batch.read) == (size * batch.number, len(mine))
        kept = [(cell, number) for cell, number in mine if number in scope]
        assert [(row["cell_index"], row["counter_id"]) for row in rows(batch)] == kept
        assert batch.skipped == len(mine) - len(kept)
    again = list(batches(file, known, size, since))
    assert [(batch.number, batch.position, rows(batch)) for batch in again] == [
        (batch.number, batch.position, rows(batch)) for batch in found[since:]
    ]


def test_the_tail_of_a_file_has_a_number_of_its_own() -> None:
    """1,500 counters are two batches. Numbered by what was read before, both are 1, and a checkpoint skips the tail."""
    file = opened(MessageWriter().write(b"HN01", several(15, 100)))
    found = list(batches(file, dictionary({}), 1_000))
    assert [(batch.number, batch.position, batch.read, len(batch)) for batch in found] == [
        (0, 0, 1_000, 0),
        (1, 1_000, 500, 0),
    ]


def test_a_batch_larger_than_what_is_read_at_once_is_whole() -> None:
    file = opened(MessageWriter().write(b"HN01", several(700, 60)))
    found = list(batches(file, dictionary({}), 40_000))
    assert [(batch.number, batch.read) for batch in found] == [(0, 40_000), (1, 2_000)]


def test_elements_so_wide_that_few_fit_are_still_in_whole_batches() -> None:
    """Counters of a schema that became a thousand fields long: 48 MB, of which a little is held at a time."""
    words = np.zeros(3 + 1 + 5 + 1 + 1_000 * 6_000, np.uint64)
    words[0] = 2 << 48
    words[2] = 1 | (7 | 5 << 3) << 32
    words[3] = 1 << 2 | (3 | 2 << 16) << 32
    words[8] = 1 | (7 | 1_000 * 6_000 << 3) << 32
    words[9] = 6_000 << 2 | 1_000 << 32
    words[10::1_000] = np.arange(6_000)
    content = bytes(4) + len(words).to_bytes(4, "little") + words.tobytes()
    file = opened(content)
    known = NetworkDictionary(
        DictionaryRows({"": 1}, {(number, "2"): "G" for number in range(6_000)}, {"rat_type": "2"})
    )
    tracemalloc.start()
    found = list(batches(file, known, 1_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000
    assert [batch.counter_id.tolist() for batch in found] == [
        list(range(at, at + 1_000)) for at in range(0, 6_000, 1_000)
    ]


def test_a_row_has_all_columns() -> None:
    source = [
        written([7, 8, 9], [1.5, math.nan, -math.inf], location=b" Cell=1, NodeFunction=gNodeB ", cell=3, time=5_000),
        written([7], [2.0], location=b"Cell=2", cell=-4, duration=60),
    ]
    (batch,) = batches(opened(MessageWriter().write(b"HN02", source)), dictionary({7: "A", 8: "B", 9: "B"}))
    first = {
        "ne_id": 12,
        "record_time": 5_000,
        "duration": 900,
        "counter_id": 7,
        "counter_value": 1.5,
        "group_code": "A",
        "rat_type": "5G",
        "cell_index": 3,
        "obj_hash": "d5702e338d1b45d2",
        "extra_field": {"cell": "1", "nodefunction": "gNodeB"},
    }
    assert rows(batch) == [
        first,
        {**first, "counter_id": 8, "counter_value": None, "group_code": "B"},
        {**first, "counter_id": 9, "counter_value": None, "group_code": "B"},
        {
            **first,
            "record_time": 1_700_000_000_000,
            "duration": 60,
            "counter_value": 2.0,
            "rat_type": "",
            "cell_index": -4,
            "obj_hash": "2582bad70af7f6f8",
            "extra_field": {"cell": "2"},
        },
    ]


def test_a_file_with_an_unknown_element_has_no_batch_at_all() -> None:
    both = MessageWriter().write(b"HN01", several(2, 5)) + MessageWriter().write(b"XX99", several(2, 5))
    with pytest.raises(UnknownElement, match="Unknown NE: XX99"):
        next(batches(opened(both), dictionary({})))
