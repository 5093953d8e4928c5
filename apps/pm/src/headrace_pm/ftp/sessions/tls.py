"""FTP inside of TLS: from the login on (explicit), or from the first byte (implicit).

A data connection continues the session of its control connection. Servers that ask for it (vsftpd does unless told
otherwise) take this for the proof that both ends are the same; `ftplib` opens a new session each time.
"""

from __future__ import annotations

import contextlib
import ftplib
import socket
import ssl


class ExplicitTls(ftplib.FTP_TLS):
    """AUTH TLS before the login, and everything protected."""

    def __init__(self, timeout_s: float, context: ssl.SSLContext | None) -> None:
        super().__init__(timeout=timeout_s, context=context or ssl.create_default_context(), encoding="latin-1")

    def auth(self) -> str:
        """The name of the server is checked as it was given, also if that is an address."""
        answer = self.voidcmd("AUTH TLS")
        self._protect()
        return answer

    def _protect(self) -> None:
        assert self.sock is not None
        self.sock = self.context.wrap_socket(self.sock, server_hostname=self.host)
        self.file = self.sock.makefile(mode="r", encoding=self.encoding)

    def ntransfercmd(self, cmd: str, rest: int | str | None = None) -> tuple[socket.socket, int | None]:
        plain, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        session = getattr(self.sock, "session", None)
        try:
            return self.context.wrap_socket(plain, server_hostname=self.host, session=session), size
        except BaseException:
            with contextlib.suppress(OSError):
                plain.close()
            raise


class ImplicitTls(ExplicitTls):
    """TLS before the greeting."""

    def getresp(self) -> str:
        if not isinstance(self.sock, ssl.SSLSocket):
            self._protect()
        return super().getresp()
