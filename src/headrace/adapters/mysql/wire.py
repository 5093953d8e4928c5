"""A connection of PyMySQL that also speaks what the driver does not: prepared statements, and MariaDB's bulk command.

MariaDB tells its own capabilities in bytes of the greeting that MySQL leaves empty, and is told ours in bytes of the
login that MySQL ignores. It looks there only if the oldest flag of all is off. Rows of one bulk command are one
statement to the server: all of them are done, or none.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import pymysql
from pymysql.constants import CLIENT, COMMAND

if TYPE_CHECKING:
    import socket

    class DriverConnection(pymysql.connections.Connection[Any]):
        """What the driver has inside, and its stubs do not tell."""

        _sock: socket.socket
        _result: Any

        def _execute_command(self, command: int, sql: str | bytes) -> None: ...
        def _read_query_result(self) -> int: ...
        def _read_packet(self, *kinds: Any) -> Any: ...
        def _request_authentication(self) -> None: ...

else:
    DriverConnection = pymysql.connections.Connection

COM_STMT_BULK_EXECUTE = 0xFA
SEND_TYPES = 128
# The command byte, the statement's number and the flags.
BULK_HEAD_BYTES = 7
# Its number is 34 among all capabilities, and the extended ones begin at 32.
BULK_OPERATIONS = 1 << 2
# Both answers of the login begin with flags, the longest packet, a collation and 23 empty bytes.
_LOGIN = struct.Struct("<IIB23s")
_NO_FILLER = bytes(23)
_EXTENDED_AT = 28


class RefusedLogin:
    """A server that asks for the password as it is does not get it: who pretends to be the server would."""

    def __init__(self, connection: object) -> None:
        self._connection = connection

    def authenticate(self, packet: object) -> NoReturn:
        raise pymysql.OperationalError(2059, "the server asks for the password in clear text")


class MysqlConnection(DriverConnection):
    """`committing`: what may have been committed is on its way, and the answer is not there yet."""

    def __init__(self, *, wants_bulk: bool, **settings: Any) -> None:
        self._wants_bulk, self._greeting, self._logged_in = wants_bulk, b"", False
        self._prepared: dict[str, int] = {}
        self.committing = False
        super().__init__(**settings)

    @property
    def takes_bulk(self) -> bool:
        return self._wants_bulk and bool(_extended(self._greeting) & BULK_OPERATIONS)

    def fileno(self) -> int:
        """Its socket; below zero if it is closed."""
        return int(self._sock.fileno()) if self.open else -1

    def wait_for_answers(self, seconds: float) -> None:
        """How long an answer may take from now on."""
        self._read_timeout = self._write_timeout = seconds

    def prepared(self, text: str) -> int:
        """The number of a statement on this connection; it is prepared once."""
        if text not in self._prepared:
            self._execute_command(COMMAND.COM_STMT_PREPARE, text)
            number, columns, values = struct.unpack_from("<IHH", self._read_packet().get_all_data(), 1)
            # The descriptions of values and columns, each with a packet that ends them, say nothing new.
            for count in (values, columns):
                for _ in range(count + 1 if count else 0):
                    self._read_packet()
            self._prepared[text] = number
        return self._prepared[text]

    def bulk(self, text: str, types: bytes, rows: bytes) -> int:
        """Run a statement for many rows at once; how many rows were changed in all."""
        head = struct.pack("<IH", self.prepared(text), SEND_TYPES)
        self._execute_command(COM_STMT_BULK_EXECUTE, b"".join((head, types, rows)))
        return int(self._read_query_result())

    def together(self, texts: Sequence[bytes]) -> Iterator[Any]:
        """Send statements as one packet, and give their answers one by one. If one fails, those behind it are not
        run."""
        # On a line of its own, the mark that parts two statements is no part of a comment.
        self.query(b"\n;\n".join(texts))
        yield self._result
        while self._result.has_next:
            self.next_result()
            yield self._result

    def _create_ssl_ctx(self, wanted: Any) -> ssl.SSLContext:
        """What is trusted unseen needs no authorities, which take a megabyte for each connection."""
        return wanted if isinstance(wanted, ssl.SSLContext) else trusting()

    def _read_packet(self, *kinds: Any) -> Any:
        packet = super()._read_packet(*kinds)
        if not self._greeting:
            self._greeting = packet.get_all_data()
        return packet

    def _request_authentication(self) -> None:
        super()._request_authentication()
        self._logged_in = True

    def write_packet(self, payload: bytes) -> None:
        if not self._logged_in and self.takes_bulk and len(payload) >= _LOGIN.size:
            flags, longest, collation, filler = _LOGIN.unpack_from(payload)
            if filler == _NO_FILLER and flags & CLIENT.PROTOCOL_41:
                begin = _LOGIN.pack(flags & ~CLIENT.LONG_PASSWORD, longest, collation, b"")[:_EXTENDED_AT]
                payload = begin + struct.pack("<I", BULK_OPERATIONS) + payload[_LOGIN.size :]
        super().write_packet(payload)


@cache
def trusting() -> ssl.SSLContext:
    """TLS with whoever answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _extended(greeting: bytes) -> int:
    """The capabilities that only a MariaDB has; 0 of any other server."""
    # Behind the version: connection number, 8 bytes of salt and a filler; then flags, collation, status, more flags.
    at = greeting.find(b"\0", 1) + 1 + 4 + 9
    if len(greeting) < at + 18:
        return 0
    flags: int = struct.unpack_from("<H", greeting, at)[0]
    extended: int = struct.unpack_from("<I", greeting, at + 14)[0]
    return 0 if flags & CLIENT.LONG_PASSWORD else extended
