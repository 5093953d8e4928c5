"""Payloads: from a handler's annotation to bytes and back.

What is sent is encoded and then decoded as the declared type, because an instance proves nothing: neither dataclasses
nor Structs check their fields. Bulk sends are checked by the parcel, claims are decoded by the slice, both in one call:
items lie in a row, so an array header in front of them makes them one msgpack list.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from headrace.core.errors import InvalidFlow, InvalidPayload
from headrace.core.parcels import PARCEL_BYTES_MAX, PARCEL_ITEMS_MAX, PAYLOAD_BYTES_MAX, Encoded, Parcel, check_item

_encoder = msgspec.msgpack.Encoder()
_plain = msgspec.msgpack.Decoder()
_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>.*?)`)?$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<field>[^`]*)`$")


UNENCODABLE = (TypeError, ValueError, RecursionError, OverflowError)
"""What the encoder raises for a value that msgpack cannot hold."""


def unencodable(error: BaseException) -> str:
    """Why a value cannot be encoded, in words."""
    return "an integer is outside 64 bits; send it as text" if isinstance(error, OverflowError) else str(error)


class Codec(Protocol):
    """Encodes and decodes the payloads of one stage."""

    @property
    def stage(self) -> str: ...

    def encode(self, value: Any) -> bytes:
        """The msgpack of a value that fits the stage's type; `InvalidPayload` names the field that does not."""

    def decode(self, payload: bytes, ends: Sequence[int]) -> tuple[list[Any], dict[int, str]]:
        """All items of a slice, and by index what is wrong with those that do not fit."""

    def append(self, value: Any, buffer: bytearray) -> None:
        """Encode a value to the end of a buffer that is checked as a whole later."""

    def check(self, payload: bytes, count: int) -> None:
        """`InvalidPayload` unless all items that were appended fit."""


def codec_for(stage: str, kind: Any) -> Codec:
    """The codec for one payload type. Pydantic is not imported here: a model proves that the user has done so."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
        from headrace.runtime.pydantic_codec import PydanticCodec

        return PydanticCodec(stage, kind)
    return MsgspecCodec(stage, kind)


def pack_values(
    codec: Codec,
    values: Iterable[Any],
    key_of: Callable[[Any], str | None] | None = None,
    delay_s: float = 0.0,
) -> Iterator[Parcel]:
    """Encode a stream of values of one stage into parcels, numbered from 0 and checked by the parcel."""
    buffer, ends, number, start = bytearray(), array("I"), 0, 0
    keys: list[str | None] = []
    append = codec.append
    for value in values:
        append(value, buffer)
        end = len(buffer)
        key = key_of(value) if key_of is not None else None
        if end - start > PAYLOAD_BYTES_MAX or key is not None:
            check_item(Encoded(bytes(buffer[start:]), key))
        if start and (end > PARCEL_BYTES_MAX or len(ends) == PARCEL_ITEMS_MAX):
            yield _parcel(codec, bytes(buffer[:start]), ends, keys, (delay_s, number))
            buffer, ends, keys, number = buffer[start:], array("I"), [], number + 1
            end -= start
        ends.append(end)
        start = end
        if key_of is not None:
            keys.append(key)
    if ends:
        yield _parcel(codec, bytes(buffer), ends, keys, (delay_s, number))


def _parcel(codec: Codec, payload: bytes, ends: array[int], keys: list[str | None], last: tuple[float, int]) -> Parcel:
    codec.check(payload, len(ends))
    delay_s, number = last
    named = tuple(keys) if any(key is not None for key in keys) else None
    return Parcel(codec.stage, payload, ends, named, 0, delay_s, number)


def as_list(payload: bytes, count: int) -> bytes:
    """Items in a row as one msgpack array."""
    return b"".join((b"\xdd", count.to_bytes(4, "big"), payload))


class MsgspecCodec:
    """Dataclasses, Structs, TypedDicts, builtins and Any."""

    __slots__ = ("_free", "_many", "_one", "stage")

    def __init__(self, stage: str, kind: Any) -> None:
        self.stage = stage
        self._free = kind is Any
        try:
            if isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType):
                raise InvalidFlow(
                    f"stage {stage!r}: payloads of type {kind!r} cannot be encoded",
                    "declare a dataclass, a msgspec Struct, a Pydantic model, a TypedDict or a builtin",
                )
            self._one: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(kind)
            self._many: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(list[kind])
        except (TypeError, NameError) as error:
            raise InvalidFlow(f"stage {stage!r}: payloads of type {kind!r} cannot be encoded: {error}") from None

    def encode(self, value: Any) -> bytes:
        try:
            payload = _encoder.encode(value)
            if not self._free:
                self._one.decode(payload)
        except msgspec.ValidationError as error:
            raise InvalidPayload(f"{self.stage}: {_named(str(error))}") from None
        except UNENCODABLE as error:
            raise InvalidPayload(f"{self.stage}: payload: {unencodable(error)}") from None
        return payload

    def append(self, value: Any, buffer: bytearray) -> None:
        try:
            _encoder.encode_into(value, buffer, -1)
        except UNENCODABLE as error:
            raise InvalidPayload(f"{self.stage}: payload: {unencodable(error)}") from None

    def check(self, payload: bytes, count: int) -> None:
        if self._free:
            return
        try:
            self._many.decode(as_list(payload, count))
        except msgspec.ValidationError as error:
            raise InvalidPayload(f"{self.stage}: {_named(str(error), many=True)}") from None

    def decode(self, payload: bytes, ends: Sequence[int]) -> tuple[list[Any], dict[int, str]]:
        try:
            return self._many.decode(as_list(payload, len(ends))), {}
        except msgspec.MsgspecError:
            return decode_each(self._one.decode, payload, ends, lambda error: _named(str(error)))


def decode_each(
    decode: Callable[[bytes], Any], payload: bytes, ends: Sequence[int], explain: Callable[[Exception], str]
) -> tuple[list[Any], dict[int, str]]:
    """Item by item, so that one that does not fit fails alone."""
    items: list[Any] = []
    wrong: dict[int, str] = {}
    start = 0
    for index, end in enumerate(ends):
        try:
            items.append(decode(payload[start:end]))
        except (ValueError, TypeError) as error:
            items.append(None)
            wrong[index] = explain(error)
        start = end
    return items, wrong


def plain_value(payload: bytes) -> Any:
    """A stored payload as JSON can say it: bytes become base64, moments become text. So does what is no msgpack."""
    try:
        value = _plain.decode(payload)
    except msgspec.DecodeError:
        value = payload
    return msgspec.to_builtins(value, enc_hook=str, builtin_types=(), str_keys=True)


def encode_cursor(value: Any) -> bytes:
    try:
        return _encoder.encode(value)
    except UNENCODABLE as error:
        raise InvalidPayload(f"cursor: {unencodable(error)}") from None


def decode_cursor(cursor: bytes) -> Any:
    return _plain.decode(cursor)


def _named(message: str, many: bool = False) -> str:
    """Turn msgspec's "Expected `int`, got `str` - at `$.pages`" into "payload.pages: expected int, got str"."""
    match = _AT.match(message)
    what, path = (match["what"], match["path"] or "") if match else (message, "")
    where = "payload" + path
    if many:
        number, _, rest = path.removeprefix("[").partition("]")
        where = f"payload{rest} (item {number} of its parcel)"
    if missing := _MISSING.match(what):
        return f"{where}.{missing['field']}: missing"
    plain = what.replace("`", "")
    return f"{where}: {plain[:1].lower()}{plain[1:]}"
