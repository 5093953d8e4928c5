"""The first bytes of a file and its size tell whether it is whole."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from pm_messages import opened, several

from headrace_pm.network.message_writer import MessageWriter, framed
from headrace_pm.wire.byte_source import FileBytes, HeldBytes
from headrace_pm.wire.counter_file import CounterFile
from headrace_pm.wire.file_errors import BadFile, IncompleteFile
from headrace_pm.wire.frame import (
    HEAD_BYTES,
    MESSAGE_BYTES_MAX,
    MESSAGES_MAX,
    SEGMENTS_MAX,
    Bad,
    Complete,
    Incomplete,
    Undecided,
    examine,
    examine_head,
)
from headrace_pm.wire.packed import pack

MESSAGE = MessageWriter().write(b"HN01", several(5, 20))
MANY_SEGMENTS = MessageWriter(32).write(b"HN01", several(5, 20))


@pytest.mark.parametrize("whole", [MESSAGE, MANY_SEGMENTS], ids=["one segment", "many"])
def test_a_cut_file_is_known_by_its_first_bytes_wherever_it_is_cut(whole: bytes) -> None:
    head = examine_head(whole[:HEAD_BYTES], len(whole))
    assert isinstance(head, Complete)
    assert head == examine(HeldBytes(whole))
    for length in range(len(whole)):
        verdict = examine_head(whole[: min(length, HEAD_BYTES)], length)
        assert isinstance(verdict, Incomplete)
        assert verdict == examine(HeldBytes(whole[:length]))
        assert 0 < verdict.missing <= len(whole) - length
        if verdict.exact:
            assert verdict.missing == len(whole) - length
        with pytest.raises(IncompleteFile) as raised:
            CounterFile(HeldBytes(whole[:length]))
        assert raised.value.missing == verdict.missing
        assert raised.value.heals


def test_what_is_missing_is_exact_once_the_table_is_there() -> None:
    assert examine_head(MESSAGE[:8], 8) == Incomplete(len(MESSAGE) - 8, exact=True)
    assert examine_head(MESSAGE[:7], 7) == Incomplete(9, exact=False)


def test_a_file_that_shrinks_while_it_is_read_is_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "shrinking.dat"
    path.write_bytes(MESSAGE)
    with FileBytes(path) as source:
        file = CounterFile(source)
        os.truncate(path, len(MESSAGE) - 24)
        with pytest.raises(IncompleteFile) as raised:
            list(file.blocks())
        assert raised.value.missing == 24


def test_an_empty_file_is_not_whole() -> None:
    assert examine_head(b"", 0) == examine(HeldBytes(b"")) == Incomplete(16, exact=False)


def test_a_packed_file_is_told_from_a_plain_one() -> None:
    chance = random.Random(0)
    for number in range(300):
        words = chance.choice((0, 8, 64, 1_024))
        message = MessageWriter(words).write(b"N" * chance.randrange(20), several(number % 7, chance.randrange(40)))
        assert isinstance(examine_head(message[:HEAD_BYTES], len(message)), Complete)
        packed = pack(message)
        assert examine_head(packed[:HEAD_BYTES], len(packed)) == Undecided(packed=True)


def test_messages_may_follow_each_other_and_the_last_may_be_cut() -> None:
    both = MESSAGE + MANY_SEGMENTS
    assert examine_head(both[:HEAD_BYTES], len(both)) == Undecided(packed=False)
    found = examine(HeldBytes(both))
    assert isinstance(found, Complete)
    assert [frame.end for frame in found.frames] == [len(MESSAGE), len(both)]
    assert examine(HeldBytes(both[:-5])) == Incomplete(5, exact=True)
    assert examine(HeldBytes(MESSAGE + b"\0" * 3)) == Incomplete(13, exact=False)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bytes(64), "its first segment is empty"),
        (framed([bytes(8)]) * (MESSAGES_MAX + 1), f"more than {MESSAGES_MAX} messages"),
        (MESSAGE + b"\xff" * 16, "what follows message 1 is none"),
        (b"\0\0\0\0\xff\xff\xff\xff" + bytes(8), "it says it is 34,359,738,360 bytes long"),
    ],
    ids=["zeros", "messages", "trailing noise", "endless"],
)
def test_a_frame_that_no_file_can_have_is_bad(content: bytes, reason: str) -> None:
    verdict = examine(HeldBytes(content))
    assert isinstance(verdict, Bad)
    assert verdict.reason.startswith(reason)
    with pytest.raises(BadFile, match=reason):
        CounterFile(HeldBytes(content))


def test_what_is_bad_is_not_waited_for() -> None:
    with pytest.raises(BadFile) as raised:
        CounterFile(HeldBytes(bytes(64)))
    assert not raised.value.heals


def test_limits_of_a_frame_are_reached_and_not_passed() -> None:
    most = framed([bytes(8)] * SEGMENTS_MAX)
    assert isinstance(examine(HeldBytes(most)), Complete)
    more = framed([bytes(8)] * (SEGMENTS_MAX + 1))
    assert examine(HeldBytes(more)) == Undecided(packed=True)
    with pytest.raises(BadFile):
        opened(more)
    words = MESSAGE_BYTES_MAX // 8
    largest = bytes(4) + words.to_bytes(4, "little")
    assert examine_head(largest, 8) == Incomplete(MESSAGE_BYTES_MAX, exact=True)
    assert isinstance(examine_head(bytes(4) + (words + 1).to_bytes(4, "little"), 8), Bad)
