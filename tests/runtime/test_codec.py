"""Payloads are checked where they are sent, and one that does not fit fails alone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from headrace.core.errors import InvalidFlow, InvalidPayload, TooLarge
from headrace.core.parcels import PARCEL_BYTES_MAX, PARCEL_ITEMS_MAX, PAYLOAD_BYTES_MAX
from headrace.runtime.codec import codec_for, decode_cursor, encode_cursor, pack_values


class Struct(msgspec.Struct):
    url: str
    pages: int = 1


@dataclass
class Plain:
    url: str
    pages: int = 1


class Typed(TypedDict):
    url: str
    pages: int


class Model(BaseModel):
    url: str
    pages: int = 1


KINDS = [Struct, Plain, Typed, Model]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_payload_comes_back_as_its_own_type(kind: Any) -> None:
    codec = codec_for("read", kind)
    payload = codec.encode(kind(url="a", pages=2))
    items, wrong = codec.decode(payload * 3, [len(payload), 2 * len(payload), 3 * len(payload)])
    assert items == [kind(url="a", pages=2)] * 3
    assert wrong == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_that_does_not_fit_is_refused_by_stage_and_field(kind: Any) -> None:
    with pytest.raises(InvalidPayload, match=r"^read: payload\.pages: "):
        codec_for("read", kind).encode({"url": "a", "pages": "many"})


def test_the_refusal_says_what_was_expected() -> None:
    with pytest.raises(InvalidPayload) as refused:
        codec_for("read", Struct).encode(Struct("a", "many"))
    assert str(refused.value) == "read: payload.pages: expected int, got str"


def test_a_missing_field_is_named() -> None:
    with pytest.raises(InvalidPayload, match=r"^read: payload\.url: missing$"):
        codec_for("read", Struct).encode({"pages": 1})


def test_an_instance_that_was_changed_after_it_was_made_is_checked_again() -> None:
    model = Model(url="a")
    model.pages = "many"  # type: ignore[assignment]
    with pytest.raises(InvalidPayload, match=r"payload\.pages"):
        codec_for("read", Model).encode(model)


def test_anything_that_msgpack_knows_fits_any() -> None:
    codec = codec_for("read", Any)
    payload = codec.encode({"a": [1, None, b"x"]})
    assert codec.decode(payload, [len(payload)]) == ([{"a": [1, None, b"x"]}], {})


def test_what_msgpack_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidPayload, match="read: payload"):
        codec_for("read", Any).encode(object())


def test_a_type_that_cannot_be_encoded_is_refused_at_declaration() -> None:
    with pytest.raises(InvalidFlow, match="cannot be encoded"):
        codec_for("read", InvalidFlow)


@pytest.mark.parametrize("kind", KINDS)
def test_an_item_of_another_code_version_fails_alone(kind: Any) -> None:
    codec, anything = codec_for("read", kind), codec_for("read", Any)
    pieces = [codec.encode(kind(url="a", pages=1)), anything.encode({"url": 3}), codec.encode(kind(url="b", pages=1))]
    ends = [len(b"".join(pieces[: n + 1])) for n in range(3)]
    items, wrong = codec.decode(b"".join(pieces), ends)
    assert (items[0], items[2]) == (kind(url="a", pages=1), kind(url="b", pages=1))
    assert list(wrong) == [1]
    assert wrong[1].startswith("payload.")


def test_bulk_values_are_cut_into_parcels_by_count_and_checked() -> None:
    parcels = list(pack_values(codec_for("read", Struct), (Struct("a") for _ in range(PARCEL_ITEMS_MAX + 1))))
    assert [(parcel.count, parcel.number) for parcel in parcels] == [(PARCEL_ITEMS_MAX, 0), (1, 1)]
    with pytest.raises(InvalidPayload, match=r"read: payload\.pages \(item 1 of its parcel\): expected int"):
        list(pack_values(codec_for("read", Struct), [Struct("a"), Struct("a", "x")]))


def test_bulk_values_keep_their_keys() -> None:
    (parcel,) = pack_values(codec_for("read", Struct), [Struct("a"), Struct("b")], lambda page: page.url)
    assert parcel.keys == ("a", "b")


def test_a_payload_over_the_limit_is_refused_by_the_name_of_the_limit() -> None:
    with pytest.raises(TooLarge, match="PAYLOAD_BYTES_MAX"):
        list(pack_values(codec_for("read", str), ["x" * (PAYLOAD_BYTES_MAX + 1)]))


@given(st.lists(st.binary(max_size=PARCEL_BYTES_MAX // 3), max_size=12))
def test_parcels_hold_every_value_once_and_in_order(values: list[bytes]) -> None:
    codec = codec_for("read", bytes)
    found = []
    for parcel in pack_values(codec, values):
        assert parcel.count == 1 or len(parcel.payload) <= PARCEL_BYTES_MAX
        found += codec.decode(parcel.payload, parcel.ends)[0]
    assert found == values


@given(st.recursive(st.none() | st.integers(-(2**63), 2**63) | st.text(), lambda inner: st.lists(inner), max_leaves=5))
def test_a_cursor_comes_back_as_it_was(cursor: Any) -> None:
    assert decode_cursor(encode_cursor(cursor)) == cursor


def test_pydantic_is_not_imported_unless_a_model_is_used() -> None:
    code = "import sys, headrace.runtime.worker; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", [*KINDS, Any])
@pytest.mark.parametrize("number", [2**64, -(2**63) - 1])
def test_an_integer_outside_64_bits_is_refused_in_words(kind: Any, number: int) -> None:
    codec = codec_for("read", kind)
    with pytest.raises(InvalidPayload, match=r"^read: payload: an integer is outside 64 bits"):
        codec.encode({"url": "a", "pages": number})
    with pytest.raises(InvalidPayload, match=r"^read: payload: an integer is outside 64 bits"):
        list(pack_values(codec, [{"url": "a", "pages": number}]))


def test_a_cursor_outside_64_bits_is_refused_in_words() -> None:
    with pytest.raises(InvalidPayload, match=r"^cursor: an integer is outside 64 bits"):
        encode_cursor(2**64)
