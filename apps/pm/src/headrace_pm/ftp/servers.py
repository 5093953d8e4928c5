"""File servers as their table names them.

`host` may say how to speak to it: `ftp://` (as without), `ftpes://` (TLS from the login on), `ftps://` (TLS from the
first byte), `sftp://`. The columns are those of the contract, and a server needs no more than it had.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.errors import CallerError
from headrace_pm.ftp.names import ascii_text, bytes_of_path
from headrace_pm.ftp.passwords import PasswordReference

KEY_CHARS_MAX = 100
SYSTEM_CHARS_MAX = 20
_HOST = re.compile(r"(?:(\w+)://)?(\[[0-9A-Fa-f:.%]+\]|[^\s/:@\[\]]+)/?")
_NO_WORD = re.compile(r"[\x00-\x1f\x7f]")


class WireProtocol(StrEnum):
    """How a server is spoken to."""

    FTP = "ftp"
    FTP_TLS = "ftpes"
    FTP_IMPLICIT_TLS = "ftps"
    SFTP = "sftp"


@dataclass(frozen=True, slots=True)
class FileServer:
    """One row of `ftp_server`; its `key` is in tables, keys and messages and has no password in it."""

    system_type: str
    host: str
    port: int
    user: str
    password: PasswordReference
    protocol: WireProtocol = WireProtocol.FTP
    key: str = field(default="")

    @classmethod
    def of_row(cls, system_type: str, host: str, port: int, user: str, password_ref: str) -> FileServer:
        """The server of a row; what cannot work is refused."""
        found = _HOST.fullmatch(host.strip())
        if found is None or (found[1] or "ftp").lower() not in list(WireProtocol):
            forms = ", ".join(f"{each}://HOST" for each in WireProtocol)
            # What stands before an @ may be a password.
            named = host.strip().rpartition("@")[2][:80]
            raise CallerError(f"{named!r} is not a host", f"write HOST, or {forms}; the user has a column of its own")
        if not 0 < port < 65_536 or not user or _NO_WORD.search(user) or not system_type:
            raise CallerError(f"the server {found[2]} lacks a port, a user or a system type")
        name, protocol = found[2].strip("[]"), WireProtocol((found[1] or "ftp").lower())
        key, system = ascii_text(f"{name}_{port}_{user}"), ascii_text(system_type)
        if len(key) > KEY_CHARS_MAX or len(system) > SYSTEM_CHARS_MAX:
            raise CallerError(
                f"the server {name} cannot be kept",
                f"{KEY_CHARS_MAX} characters for host_port_user, {SYSTEM_CHARS_MAX} for system_type",
            )
        return cls(system, name, port, user, PasswordReference.read(password_ref), protocol, key)


@dataclass(frozen=True, slots=True)
class ServerFolder:
    """One folder of a server, as tables name it; `path` stands as in `ftp_path`."""

    system_type: str
    server_key: str
    path: str

    @property
    def on_server(self) -> bytes:
        return bytes_of_path(self.path)
