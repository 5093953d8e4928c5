"""Packed files: what we unpack is what pycapnp packed, and the other way round, wherever blocks end."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pm_messages import SCHEMA, built_by_pycapnp, by_pycapnp, joined, opened, plain_of, reading, readings, several

from headrace_pm.network.message_writer import MessageWriter
from headrace_pm.wire.byte_source import FileBytes, HeldBytes
from headrace_pm.wire.counter_file import CounterFile, plain_file
from headrace_pm.wire.file_errors import BadFile, IncompleteFile
from headrace_pm.wire.packed import BLOCK_BYTES, FREE_BYTES, TIMES_MAX, pack, unpack

# Every kind of entry: zero words alone and in runs of more than 256, words without a zero byte, and all between.
WORDS = st.one_of(
    st.integers(1, 600).map(lambda count: bytes(8 * count)),
    st.integers(1, 300).map(lambda count: b"\x81" * 8 * count),
    st.binary(min_size=8, max_size=8),
    st.lists(st.sampled_from((0, 0, 7)), min_size=8, max_size=8).map(bytes),
)


def framed_words(words: list[bytes]) -> bytes:
    """Any words behind a table that counts them."""
    body = b"".join(words)
    return bytes(4) + (len(body) // 8).to_bytes(4, "little") + body


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=30))
def test_what_is_packed_comes_back(words: list[bytes]) -> None:
    content = framed_words(words)
    assert plain_of(pack(content)) == content


def test_entries_that_reach_over_the_end_of_a_block_are_whole() -> None:
    chance = np.random.default_rng(1)
    words = chance.integers(0, 256, 9 * BLOCK_BYTES, np.uint8)
    words[chance.random(len(words)) < 0.3] = 0
    content = framed_words([words.tobytes()])
    assert len(pack(content)) > 5 * BLOCK_BYTES
    assert plain_of(pack(content)) == content


def test_what_pycapnp_packs_is_unpacked() -> None:
    for counters in (0, 1, 3, 400):
        objects = several(60, counters)
        message = built_by_pycapnp("HN01", objects)
        plain = message.to_bytes()
        message.clear_write_flag()
        packed = message.to_bytes_packed()
        assert plain_of(packed) == plain
        assert joined(readings(opened(packed))) == [reading(each) for each in objects if counters]


def test_pycapnp_unpacks_what_we_pack() -> None:
    objects = several(40, 50)
    content = MessageWriter(128).write(b"HN01", objects)
    collection = SCHEMA.CounterDataCollection.from_bytes_packed(pack(content))
    assert collection.unit == "HN01"
    assert [each.cell for each in collection.data] == [each.cell for each in objects]
    assert [counter.value for each in collection.data for counter in each.data] == [
        value for each in objects for value in each.values.tolist()
    ]
    assert by_pycapnp(content)[1] == [reading(each) for each in objects]


def test_a_packed_file_that_is_cut_is_not_whole_wherever_it_is_cut() -> None:
    packed = pack(MessageWriter(64).write(b"HN01", several(4, 30)))
    for length in range(len(packed)):
        with pytest.raises(IncompleteFile) as raised:
            opened(packed[:length])
        assert raised.value.missing > 0


def test_noise_is_refused_before_anything_is_made_of_it() -> None:
    made: list[bytes] = []
    with pytest.raises(BadFile, match="neither plain nor packed"):
        unpack(HeldBytes(b"\xff" * 10_000), made.append)
    assert made == []


def test_a_few_bytes_do_not_fill_a_disk() -> None:
    table = bytes(4) + (1 << 27).to_bytes(4, "little")
    bomb = pack(table + b"\1" * 8) + b"\0\xff" * 400_000
    written = 0

    def write(piece: bytes) -> None:
        nonlocal written
        written += len(piece)

    with pytest.raises(BadFile, match="when they are unpacked"):
        unpack(HeldBytes(bomb), write)
    assert written <= TIMES_MAX * len(bomb) + FREE_BYTES


def test_a_packed_file_is_written_beside_and_a_plain_one_is_taken_as_it_is(tmp_path: Path) -> None:
    plain, packed, beside = tmp_path / "plain", tmp_path / "packed", tmp_path / "beside"
    objects = several(3, 10)
    plain.write_bytes(MessageWriter().write(b"HN01", objects))
    packed.write_bytes(pack(plain.read_bytes()))
    assert plain_file(plain, beside) == plain
    assert not beside.exists()
    assert plain_file(packed, beside) == beside
    with FileBytes(beside) as source:
        assert readings(CounterFile(source)) == [reading(each) for each in objects]
    beside.unlink()
    packed.write_bytes(packed.read_bytes()[:-1])
    with pytest.raises(IncompleteFile):
        plain_file(packed, beside)
    assert not beside.exists()


def test_pieces_are_small_whatever_they_unpack_to() -> None:
    content = framed_words([b"\1" * 8, bytes(8 * 300_000), *[b"\x07" * 8] * 40_000])
    packed = pack(content)
    pieces: list[int] = []
    whole = io.BytesIO()

    def write(piece: bytes) -> None:
        pieces.append(len(piece))
        whole.write(piece)

    unpack(HeldBytes(packed), write)
    assert whole.getvalue() == content
    assert max(pieces) <= 8 * (64 << 10)
