"""Pydantic models as payloads. What `model_dump(mode="json")` gives is what travels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError

from headrace.core.errors import InvalidPayload
from headrace.runtime.codec import UNENCODABLE, as_list, decode_each, unencodable

_encoder = msgspec.msgpack.Encoder()
_plain = msgspec.msgpack.Decoder()
_plain_list: msgspec.msgpack.Decoder[list[Any]] = msgspec.msgpack.Decoder(list[Any])


class PydanticCodec:
    """One model. Instances are validated again: assignment to a field checks nothing by default."""

    __slots__ = ("_many", "_model", "stage")

    def __init__(self, stage: str, model: type[BaseModel]) -> None:
        self.stage = stage
        self._model = model
        self._many: TypeAdapter[list[Any]] = TypeAdapter(list[model])  # type: ignore[valid-type]

    def encode(self, value: Any) -> bytes:
        try:
            plain = value.model_dump(mode="json", warnings="none") if isinstance(value, BaseModel) else value
            payload = _encoder.encode(plain)
            self._model.model_validate(_plain.decode(payload))
        except ValidationError as error:
            raise InvalidPayload(f"{self.stage}: {_named(error)}") from None
        except UNENCODABLE as error:
            raise InvalidPayload(f"{self.stage}: payload: {unencodable(error)}") from None
        return payload

    def append(self, value: Any, buffer: bytearray) -> None:
        buffer += self.encode(value)

    def check(self, payload: bytes, count: int) -> None:
        """Encoding has checked each item already."""

    def decode(self, payload: bytes, ends: Sequence[int]) -> tuple[list[Any], dict[int, str]]:
        try:
            return self._many.validate_python(_plain_list.decode(as_list(payload, len(ends)))), {}
        except (ValidationError, msgspec.MsgspecError):
            return decode_each(lambda piece: self._model.model_validate(_plain.decode(piece)), payload, ends, _explain)


def _explain(error: Exception) -> str:
    return _named(error) if isinstance(error, ValidationError) else f"payload: {error}"


def _named(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    return f"payload{path}: {first['msg'][:1].lower()}{first['msg'][1:]}"
