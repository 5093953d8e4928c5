"""Moments as the driver reads them: aware, and always readable.

A timestamp of Cassandra is any number of milliseconds, and a client that writes microseconds by mistake names a year
that Python has none of. The driver raises while it decodes such a row, and closes the connection with all that other
statements have under way on it: one row of a foreign client would stop everybody. So what lies outside is read as the
first or the last moment that there is.

Names begin with an underscore because the driver registers every other class of its kinds for the whole process.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from cassandra import type_codes
from cassandra.cqltypes import DateType
from cassandra.protocol import ProtocolHandler, ResultMessage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST_MS, _LAST_MS = (_FIRST - _EPOCH) // _MILLISECOND, (_LAST - _EPOCH) // _MILLISECOND


class _Moment(DateType):  # type: ignore[misc]  # the driver has no types
    @staticmethod
    def deserialize(read: bytes, protocol_version: int) -> datetime:
        milliseconds = int.from_bytes(read, signed=True)
        if milliseconds < _FIRST_MS:
            return _FIRST
        return _LAST if milliseconds > _LAST_MS else _EPOCH + milliseconds * _MILLISECOND


_DECODERS: Mapping[int, Any] = ProtocolHandler.message_types_by_opcode
_RESULT: Any = _DECODERS[ResultMessage.opcode]


class _MomentResult(_RESULT):  # type: ignore[misc]
    type_codes: ClassVar[Mapping[int, Any]] = {**ResultMessage.type_codes, type_codes.DateType: _Moment}


class MomentProtocol(ProtocolHandler):  # type: ignore[misc]
    """The driver's protocol, with moments read so."""

    message_types_by_opcode: ClassVar[Mapping[int, Any]] = {**_DECODERS, ResultMessage.opcode: _MomentResult}
