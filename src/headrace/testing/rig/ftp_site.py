"""The process behind `FtpServer`: pyftpdlib, and what it does wrong on demand."""

from __future__ import annotations

import json
import logging
import os
import secrets
import sys
from pathlib import Path
from typing import Any, ClassVar

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler, ThrottledDTPHandler, TLS_DTPHandler, TLS_FTPHandler
from pyftpdlib.servers import FTPServer

MLS = ("MLSD", "MLST")
# Everything but changing modes.
PERMITTED = "elradfmwT"


class _Data(ThrottledDTPHandler):
    """A data connection that may be slow, and may end before everything was sent."""

    def send(self, data: bytes) -> int:
        left = self.cmd_channel.left_before_cut
        if left is None:
            return int(super().send(data))
        sent = super().send(data[:left]) if left else 0
        self.cmd_channel.left_before_cut = left - sent
        if left == sent:
            self.cmd_channel.cut()
        return int(sent)


class _TlsData(_Data, TLS_DTPHandler):
    """The same inside of TLS."""


class _Site(FTPHandler):
    """What one conversation does beyond FTP. Names of methods are those that pyftpdlib looks for."""

    orders: dict[str, Any]
    cuts_left: list[float]
    left_before_cut: int | None = None
    hidden_uploads: ClassVar[dict[str, str]] = {}
    """Where a file is while it comes in, and where it belongs."""
    dtp_handler = _Data

    def on_connect(self) -> None:
        limit = self.orders.get("connections_max")
        if limit is not None and len(self.server.ip_map) > limit:
            self.respond("421 Too many connections. Service temporarily unavailable.")
            self.close_when_done()

    def handle_auth_failed(self, message: str, password: str) -> None:
        echo = f" {password}" if self.orders["echo_password"] else ""
        super().handle_auth_failed(f"{message}{echo}", password)

    def on_login(self, username: str) -> None:
        self._note({"login": username})

    def log_transfer(self, **told: Any) -> None:
        file = self.hidden_uploads.get(told["filename"], told["filename"])
        path = Path(file).relative_to(self.orders["files"])
        counted = {"byte_count": told["bytes"], "whole": told["completed"]}
        self._note({"command": told["cmd"], "path": f"/{path}", **counted})
        super().log_transfer(**told)

    def ftp_RETR(self, file: str) -> Any:  # noqa: N802
        self._arm("cut_transfer_after")
        return super().ftp_RETR(file)

    def ftp_LIST(self, path: str) -> Any:  # noqa: N802
        self._arm("cut_listing_after")
        return super().ftp_LIST(path)

    def ftp_MLSD(self, path: str) -> Any:  # noqa: N802
        self._arm("cut_listing_after")
        return super().ftp_MLSD(path)

    def ftp_NLST(self, path: str) -> Any:  # noqa: N802
        self._arm("cut_listing_after")
        return super().ftp_NLST(path)

    def ftp_STOR(self, file: str, mode: str = "w") -> Any:  # noqa: N802
        if self.orders["half_uploads"]:
            return super().ftp_STOR(file, mode)
        # Outside of what clients see, and on the same disk.
        hidden = str(Path(self.orders["uploads"]) / secrets.token_hex(8))
        self.hidden_uploads[hidden] = file
        return super().ftp_STOR(hidden, mode)

    def on_file_received(self, file: str) -> None:
        if file in self.hidden_uploads:
            os.replace(file, self.hidden_uploads.pop(file))

    def cut(self) -> None:
        """End both connections: the data as if it were all, the conversation without an answer."""
        self.data_channel.close()
        self.close()

    def _arm(self, setting: str) -> None:
        wanted = self.orders.get(setting)
        self.left_before_cut = None
        if wanted is not None and self.cuts_left[0] > 0:
            self.cuts_left[0] -= 1
            self.left_before_cut = wanted

    def _note(self, told: dict[str, Any]) -> None:
        with Path(self.orders["journal"]).open("a") as journal:
            journal.write(json.dumps(told) + "\n")


class _TlsSite(_Site, TLS_FTPHandler):
    dtp_handler = _TlsData
    tls_control_required = tls_data_required = True


def serve(orders: dict[str, Any]) -> None:
    """Serve until the process ends."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    site: Any = _TlsSite if orders["tls"] else _Site
    site.authorizer = DummyAuthorizer()
    site.authorizer.add_user(orders["user"], orders["password"], orders["files"], perm=PERMITTED)
    site.orders, site.cuts_left = orders, [orders.get("cuts", float("inf"))]
    site.banner = "ready"
    # As long as a client waits to be told that it may not come in, so long does a test.
    site.auth_failed_timeout = 0.1
    # A name that is not UTF-8 goes through as the bytes that it is.
    site.unicode_errors = "surrogateescape"
    site.certfile = orders.get("certificate")
    site.dtp_handler.write_limit = site.dtp_handler.read_limit = orders.get("bytes_per_s", 0)
    if not orders["mlsd"]:
        site.proto_cmds = {name: told for name, told in site.proto_cmds.items() if name not in MLS}
    server = FTPServer(("127.0.0.1", orders["port"]), site)
    print(f"listening on 127.0.0.1:{orders['port']}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(json.loads(Path(sys.argv[1]).read_text()))
