"""What follows from a location and a counter, by the dictionaries of a network."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import CallerError, NotFound
from headrace_pm.counters.dictionary import DictionaryRows, NetworkDictionary, UnknownElement
from headrace_pm.counters.dictionary_files import read_dictionary, write_dictionary
from headrace_pm.counters.location import location_facts, object_hash, pairs, trimmed
from headrace_pm.counters.scope import OUT_OF_SCOPE, CounterScope

ROWS = DictionaryRows(
    {"HN01": 4, "hn01": 5},
    {(7, "2"): "CELL", (8, "2"): "CELL", (9, "3"): "NODE", (7, "3"): "OTHER", (-1, "2"): "ODD"},
    {"rat_type": "2", "nodefunction": "3"},
    {"gNodeBFunction": "5G", "eNodeBFunction": "4G"},
)


@pytest.mark.parametrize(
    ("location", "found"),
    [
        (b"Cell=1", {"cell": "1"}),
        (
            b" Cell Name = H\xc3\xa0 N\xe1\xbb\x99i 1 ,NodeFunction=gNodeB ",
            {"cell name": "Hà Nội 1", "nodefunction": "gNodeB"},
        ),
        (b"A=1,a=2", {"a": "2"}),
        (b"A=,=x,A=b=c", {"": "x", "a": "b=c"}),
        (b"no pair,,Cell=1,", {"cell": "1"}),
        (b"\xc3\x84=1", {"ä": "1"}),
        (b"Cell=\xff", {"cell": "\ufffd"}),
        (b"", {}),
    ],
)
def test_a_location_is_its_pairs_with_keys_in_lower_case(location: bytes, found: dict[str, str]) -> None:
    assert pairs(location) == found
    assert json.loads(location_facts(location).extra_field) == found


def test_blanks_at_the_ends_are_trimmed_and_others_stay() -> None:
    assert trimmed(b" \t\r\n\0Cell=1 \x1f ") == b"Cell=1"
    # A space that does not break is no blank to those who wrote the rule.
    assert trimmed("\u00a0Cell=1".encode()) == "\u00a0Cell=1".encode()


@given(st.binary(max_size=40), st.integers(-(2**63), 2**63 - 1))
def test_the_hash_of_an_object_is_the_beginning_of_a_digest(location: bytes, cell: int) -> None:
    digest = sha256(trimmed(location) + f"|{cell}".encode()).hexdigest()
    assert f"{object_hash(trimmed(b' ' + location + chr(10).encode()), cell):016x}" == digest[:16]


def test_a_hash_that_is_known() -> None:
    """So that no two versions of this program know an object by different hashes."""
    assert f"{object_hash(b'Cell=1', 7):016x}" == "4a2018eb407016b0"


def test_the_radio_access_comes_from_the_function_of_the_node() -> None:
    dictionary = NetworkDictionary(ROWS)
    expected = {
        b"Cell=1,NodeFunction=gNodeBFunction": "5G",
        b"NODEFUNCTION= enodebfunction ,Cell=1": "4G",
        b"Cell=1,NodeFunction=Router": "",
        b"Cell=1": "",
    }
    for location, rat_type in expected.items():
        assert dictionary.rat_type(location_facts(location).node_function) == rat_type


def test_an_element_is_known_by_its_exact_name() -> None:
    dictionary = NetworkDictionary(ROWS)
    assert (dictionary.ne_id("HN01"), dictionary.ne_id("hn01")) == (4, 5)
    with pytest.raises(UnknownElement) as raised:
        dictionary.ne_id("HN01 ")
    assert str(raised.value) == "Unknown NE: HN01 "
    assert not raised.value.heals


def groups(scope: CounterScope, ids: list[int]) -> list[str | None]:
    found = scope.groups_of(np.array(ids, np.int32)).tolist()
    return [None if number == OUT_OF_SCOPE else scope.groups[number] for number in found]


def test_a_counter_is_in_scope_at_the_level_of_rat_type_only() -> None:
    scope = NetworkDictionary(ROWS).scope
    assert groups(scope, [7, 8, 9, 10, -1]) == ["CELL", "CELL", None, None, "ODD"]
    # Without that column counters have no level, and so no group.
    assert len(NetworkDictionary(DictionaryRows(counter_cat=ROWS.counter_cat)).scope) == 0
    assert groups(NetworkDictionary(DictionaryRows()).scope, [7, 0, -1]) == [None, None, None]


def test_an_id_that_no_file_can_have_is_nobodys() -> None:
    scope = CounterScope({2**31: "A", -(2**31) - 1: "A", 2**31 - 1: "B"})
    assert len(scope) == 1
    assert groups(scope, [2**31 - 1, -(2**31)]) == ["B", None]


IDS = st.integers(-(2**31), 2**31 - 1)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(IDS, st.sampled_from("ABC"), max_size=60), st.lists(IDS, max_size=30))
def test_many_ids_are_looked_up_as_one_by_one(known: dict[int, str], others: list[int]) -> None:
    ids = [*known, *others, *known]
    assert groups(CounterScope(known), ids) == [known.get(each) for each in ids]


def test_ids_that_share_a_slot_are_told_apart() -> None:
    """Of many ids some meet in a slot: those behind the first are searched for, and strangers there are not found."""
    chance = np.random.default_rng(3)
    every = np.unique(chance.integers(-(2**31), 2**31, 40_000)).astype(np.int32)
    known = {int(each): str(each % 7) for each in every[::2]}
    scope = CounterScope(known)
    assert groups(scope, every.tolist()) == [known.get(each) for each in every.tolist()]


def test_dictionaries_are_written_and_read(tmp_path: Path) -> None:
    write_dictionary(tmp_path / "new", ROWS)
    assert read_dictionary(tmp_path / "new") == ROWS
    assert (tmp_path / "new" / "ne.csv").read_text() == "id,name\n4,HN01\n5,hn01\n"


def test_columns_may_come_in_another_order_and_with_others(tmp_path: Path) -> None:
    write_dictionary(tmp_path, ROWS)
    (tmp_path / "ne.csv").write_text('\ufeffvendor,name,id\nX,"HN,01",4\n', "utf-8")
    assert read_dictionary(tmp_path).ne == {"HN,01": 4}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id,title\n1,HN01\n", "ne.csv has no column name"),
        ("", "ne.csv has no column id, name"),
        ("id,name\n1,HN01\nx,HN02\n", "ne.csv, line 3: 'x' is no whole number"),
        ("id,name\n1\n", "ne.csv, line 2: fewer values than columns"),
    ],
)
def test_a_row_that_cannot_be_one_is_refused_by_its_line(tmp_path: Path, text: str, reason: str) -> None:
    write_dictionary(tmp_path, ROWS)
    (tmp_path / "ne.csv").write_text(text)
    with pytest.raises(CallerError, match=reason):
        read_dictionary(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"ne\.csv cannot be read: No such file"):
        read_dictionary(tmp_path)
