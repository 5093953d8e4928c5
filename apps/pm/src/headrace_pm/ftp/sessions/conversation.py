"""One FTP connection, blocking: what is said to a server, and what its answers mean.

`ftplib` speaks; its texts are Latin-1, in which every byte is one character, so that names pass as the bytes that they
are. TYPE I is said once. Folders are entered (CWD) and listed without an argument: servers take `*`, `{` and a leading
`-` of an argument for a pattern or an option.

After an error the connection is of no use: answers may be out of step with commands. Whoever holds it drops it.
"""

from __future__ import annotations

import contextlib
import ftplib
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace_pm.ftp.errors import (
    CommandRefused,
    FileGone,
    FolderMissing,
    IdentityRefused,
    LoginRefused,
    RenameUnanswered,
    ServerAway,
    ServerBusy,
    TransferCut,
)
from headrace_pm.ftp.listings import FolderListing, read_list, read_mlsd, read_mlst
from headrace_pm.ftp.names import joined, shown
from headrace_pm.ftp.passwords import Secret
from headrace_pm.ftp.servers import FileServer, WireProtocol
from headrace_pm.ftp.sessions.tls import ExplicitTls, ImplicitTls
from headrace_pm.ftp.stamps import Stamp, exact

BUFFER_BYTES = 256 * 1024
# A listing of 100,000 files; a server that sends more of it is not to fill the memory.
LISTING_BYTES_MAX = 64 * 1024 * 1024
SAID_MAX = 200
UNAVAILABLE, NOT_LOGGED_IN, CLOSES = "550", "530", "421"
# Firewalls forget a silent control connection during a long transfer.
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_PASSWORD_LINE = re.compile(r"(?im)^pass .*$")
Receive = Callable[[memoryview], None]


class _NoMlst(Exception):
    """MLST has no answer for this name."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a server may take: to connect, for an answer, and between two pieces of a transfer."""

    connect_s: float = 10.0
    answer_s: float = 30.0
    data_s: float = 60.0


class Conversation:
    """One connection to one server; one thread at a time uses it, and any may `abort` it."""

    def __init__(self, server: FileServer, secret: Secret, timeouts: Timeouts, context: ssl.SSLContext | None) -> None:
        self._server, self._secret, self._timeouts = server, secret, timeouts
        self._client = _client(server, timeouts, context)
        self._data: socket.socket | None = None
        self._buffer = bytearray()
        self._home = b"/"
        self._has_mlsd = self._has_mlst = False

    def open(self) -> None:
        """Connect and log in."""
        with self._meaning("connect"):
            self._client.connect(self._server.host, self._server.port)
            _keep_alive(self._client.sock)
        with self._meaning("log in", refused=LoginRefused):
            self._client.login(self._server.user, self._secret.value)
            if isinstance(self._client, ftplib.FTP_TLS):
                self._client.prot_p()
        with self._meaning("begin"):
            assert self._client.sock is not None
            self._client.sock.settimeout(self._timeouts.answer_s)
            self._client.voidcmd("TYPE I")
            self._home = self._client.pwd().encode("latin-1") or b"/"
            self._ask_features()

    def listing(self, folder: bytes) -> FolderListing:
        """All that is in a folder."""
        with self._meaning(f"enter {shown(folder)}", refused=FolderMissing):
            self._command("CWD", self._absolute(folder))
        data = bytearray()

        def keep(piece: memoryview) -> None:
            data.extend(piece)
            if len(data) > LISTING_BYTES_MAX:
                raise CommandRefused(f"the listing of {shown(folder)} has more than {LISTING_BYTES_MAX:,} bytes")

        with self._meaning(f"list {shown(folder)}"):
            self._transfer("MLSD" if self._has_mlsd else "LIST", 0, keep)
        return read_mlsd(bytes(data)) if self._has_mlsd else read_list(bytes(data))

    def facts(self, path: bytes) -> Stamp | None:
        """Size and moment of a file; None if there is none of this name."""
        path = self._absolute(path)
        with self._meaning(f"look at {shown(path)}"):
            try:
                if self._has_mlst:
                    with contextlib.suppress(_NoMlst):
                        return self._mlst(path)
                size = self._command("SIZE", path)[4:].strip()
                moment = self._command("MDTM", path)[4:].strip()
            except ftplib.error_perm as error:
                if str(error).startswith(UNAVAILABLE):
                    return None
                raise
            return Stamp(int(size), exact(moment))

    def _mlst(self, path: bytes) -> Stamp | None:
        try:
            lines = self._command("MLST", path).encode("latin-1").splitlines()
        except ftplib.error_perm as error:
            if str(error).startswith(UNAVAILABLE):
                raise
            # pyftpdlib cannot answer for a name that is not UTF-8; SIZE and MDTM do not repeat the name.
            raise _NoMlst from None
        return read_mlst(lines[1]) if len(lines) > 1 else None

    def retrieve(self, path: bytes, offset: int, receive: Receive) -> None:
        """Hand over the bytes of a file from an offset on, as they come. An error of `receive` ends it."""
        with self._meaning(f"read {shown(path)}", refused=FileGone, cut=TransferCut):
            self._transfer(f"RETR {self._text(self._absolute(path))}", offset, receive)

    def rename(self, source: bytes, target: bytes) -> None:
        """Give a file another name; whatever has that name already may be lost."""
        with self._meaning(f"rename {shown(source)}", refused=FileGone):
            self._command("RNFR", self._absolute(source))
        with self._meaning(f"rename {shown(source)} to {shown(target)}", cut=RenameUnanswered):
            self._command("RNTO", self._absolute(target))

    def make_folder(self, folder: bytes) -> None:
        """Make a folder and those above it. One that is there stays as it is."""
        steps = self._absolute(folder).strip(b"/").split(b"/")
        for count in range(1, len(steps) + 1):
            path = b"/" + b"/".join(steps[:count])
            with self._meaning(f"make {shown(path)}"), contextlib.suppress(ftplib.error_perm):
                self._command("MKD", path)
        # The answer to MKD does not tell "exists" from "not allowed" in words that all servers share.
        with self._meaning(f"enter {shown(folder)}", refused=FolderMissing):
            self._command("CWD", self._absolute(folder))

    def delete(self, path: bytes) -> None:
        with self._meaning(f"delete {shown(path)}", refused=FileGone):
            self._command("DELE", self._absolute(path))

    def noop(self) -> None:
        """Whether it still answers, and as soon as a new connection would."""
        with self._meaning("ask"):
            assert self._client.sock is not None
            self._client.sock.settimeout(self._timeouts.connect_s)
            self._client.voidcmd("NOOP")
            self._client.sock.settimeout(self._timeouts.answer_s)

    def close(self) -> None:
        """End it, with a word of leave that nobody waits for an answer to."""
        with contextlib.suppress(OSError, ValueError):
            if self._client.sock is not None:
                self._client.sock.settimeout(0.0)
                self._client.sock.sendall(b"QUIT\r\n")
        with contextlib.suppress(OSError):
            self._client.close()

    def abort(self) -> None:
        """From any thread: whatever waits for the server ends with an error at once."""
        for each in (self._data, self._client.sock):
            with contextlib.suppress(OSError, AttributeError):
                if each is not None:
                    # The plain socket's own: TLS would wait for its peer.
                    socket.socket.shutdown(each, socket.SHUT_RDWR)

    def _transfer(self, command: str, offset: int, receive: Receive) -> None:
        if not self._buffer:
            self._buffer = bytearray(BUFFER_BYTES)
        view = memoryview(self._buffer)
        control = self._client.sock
        assert control is not None
        # A server may let a reader wait until the uploader is done, before it even answers.
        control.settimeout(self._timeouts.data_s)
        self._data, _ = self._client.ntransfercmd(command, rest=offset or None)
        with contextlib.closing(self._data) as data:
            data.settimeout(self._timeouts.data_s)
            while count := data.recv_into(view):
                receive(view[:count])
        self._data = None
        self._client.voidresp()
        control.settimeout(self._timeouts.answer_s)

    def _ask_features(self) -> None:
        try:
            told = self._client.sendcmd("FEAT").upper()
        except ftplib.error_perm:
            # An old server: it has LIST, SIZE and MDTM, or will say so.
            return
        lines = [line.strip() for line in told.splitlines()]
        self._has_mlst = any(line.startswith("MLST") for line in lines)
        self._has_mlsd = self._has_mlst or any(line.startswith("MLSD") for line in lines)

    def _absolute(self, path: bytes) -> bytes:
        return path if path.startswith(b"/") else joined(self._home, path)

    def _command(self, verb: str, path: bytes) -> str:
        return self._client.sendcmd(f"{verb} {self._text(path)}")

    @staticmethod
    def _text(path: bytes) -> str:
        return path.decode("latin-1")

    @contextlib.contextmanager
    def _meaning(
        self,
        doing: str,
        refused: type[HeadraceError] = CommandRefused,
        cut: type[HeadraceError] = ServerAway,
    ) -> Iterator[None]:
        """Errors of the wire as ours; `refused`: what 530 and 550 mean here, `cut`: what a lost answer does."""
        where = f"{self._server.key}: {doing}"
        try:
            yield
        except ftplib.error_temp as error:
            said = self._said(error)
            if said.startswith(("425", "426")):
                raise cut(f"{where}: {said}") from None
            raise ServerBusy(f"{where}: {said}") from None
        except ftplib.error_perm as error:
            said = self._said(error)
            if said.startswith(UNAVAILABLE) or refused is LoginRefused:
                raise refused(f"{where}: {said}") from None
            if said.startswith(NOT_LOGGED_IN):
                raise LoginRefused(f"{where}: {said}") from None
            raise CommandRefused(f"{where}: {said}") from None
        except ssl.SSLCertVerificationError as error:
            raise IdentityRefused(f"{where}: {error.verify_message}", "name its authority in PM_FTP_CA_FILE") from None
        except TimeoutError:
            raise cut(f"{where}: no answer in time") from None
        except (EOFError, OSError, ftplib.Error, ValueError) as error:
            raise cut(f"{where}: {self._said(error) or 'the connection was closed'}") from None

    def _said(self, error: Exception) -> str:
        text = self._secret.removed_from(str(error))
        return shown(_PASSWORD_LINE.sub("PASS ***", text).replace("\n", " ").strip(), SAID_MAX)


def _client(server: FileServer, timeouts: Timeouts, context: ssl.SSLContext | None) -> ftplib.FTP:
    if server.protocol is WireProtocol.FTP_TLS:
        return ExplicitTls(timeouts.connect_s, context)
    if server.protocol is WireProtocol.FTP_IMPLICIT_TLS:
        return ImplicitTls(timeouts.connect_s, context)
    return ftplib.FTP(timeout=timeouts.connect_s, encoding="latin-1")


def _keep_alive(connection: socket.socket | None) -> None:
    assert connection is not None
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if option := getattr(socket, name, None):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
