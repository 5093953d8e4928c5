"""FTP servers on loopback, for programs that fetch files: one of our own by `pyftpdlib` that misbehaves on demand.

It is a process of its own (`ftp_site`), so that it can be killed and frozen like any other server. As most FTP servers
it shows a file while it is uploaded, sends what is there of it and ends that with 226, and renames over a file that is
there already.

A proxy stands before the control connection. Data connections pass it by: the server names a port of its own for each
(EPSV, PASV), and clients connect there. What shall go wrong on these is a setting.
"""

from __future__ import annotations

import contextlib
import ftplib
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from headrace.core.errors import CallerError
from headrace.testing.rig.certificates import self_signed
from headrace.testing.rig.needs import Need, PythonWheel
from headrace.testing.rig.server import Server

ANSWER_S_MAX = 5.0
USER = PASSWORD = "rig"
BUSY = "421"
CERTIFICATES = PythonWheel("pyopenssl", "", "OpenSSL")
WORDS = {"yes": True, "no": False}
SWITCHES = {"mlsd": True, "tls": False, "half_uploads": True, "echo_password": False}
NUMBERS = ("bytes_per_s", "cut_transfer_after", "cut_listing_after", "cuts", "connections_max")


@dataclass(frozen=True, slots=True)
class Transfer:
    """One file that went over the line: which way, its path as the client sees it, and how much of it."""

    command: str
    path: str
    byte_count: int
    whole: bool


class FtpFolder(Server):
    """A server that gives one user one directory by FTP; what all FTP servers of the rig have."""

    @property
    def url(self) -> str:
        return f"ftp://{USER}:{PASSWORD}@127.0.0.1:{self.port}"

    @property
    def files(self) -> Path:
        """What clients see as `/`."""
        return self.home / "files"

    @property
    def certificate(self) -> Path:
        """What a client trusts to reach it by TLS; made when it is first asked for."""
        path = self.home / "certificate.pem"
        if not path.exists():
            path.write_text(self_signed("localhost"))
            path.chmod(0o600)
        return path

    def prepare(self) -> None:
        self.files.mkdir()

    def ask(self) -> None:
        """Its greeting, or that it is busy: a server that refuses everybody is up."""
        with contextlib.closing(ftplib.FTP(timeout=ANSWER_S_MAX)) as client:
            try:
                client.connect("127.0.0.1", self.port)
                client.quit()
            except ftplib.error_temp as error:
                if not str(error).startswith(BUSY):
                    raise ConnectionError(str(error)) from error
            except (ftplib.Error, EOFError) as error:
                raise ConnectionError(str(error)) from error

    def empty(self) -> None:
        """Remove all files."""
        for path in self.files.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


class FtpServer(FtpFolder):
    """Settings are its behaviour from this start on.

    `mlsd=no`: LIST only. `tls=yes`: nothing without it (explicit FTPS). `half_uploads=no`: a file is seen when it is
    whole. `bytes_per_s`: each transfer is so slow. `cut_transfer_after`, `cut_listing_after`: after so many bytes the
    data connection ends as if that were all, and the control connection without an answer; `cuts`: so many times, if
    given. `connections_max`: further ones are told 421; 0 refuses all. `echo_password=yes`: a login that fails is told
    the password that was wrong.
    """

    name: ClassVar[str] = "ftp"
    needs: ClassVar[tuple[Need, ...]] = (
        PythonWheel("pyftpdlib", "2.0", "pyftpdlib"),
        CERTIFICATES,
    )

    @property
    def _journal(self) -> Path:
        return self.home / "journal"

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        uploads = self.home / "uploads"
        uploads.mkdir(exist_ok=True)
        own = {"files": str(self.files), "uploads": str(uploads), "journal": str(self._journal)}
        orders: dict[str, Any] = {"port": self.port, **own, **_checked(settings)}
        if orders["tls"]:
            orders["certificate"] = str(self.certificate)
        path = self.write("site.json", json.dumps({"user": USER, "password": PASSWORD, **orders}))
        # -P: nothing in its home is to be mistaken for a module; what it imports warns of things to come.
        return [sys.executable, "-P", "-W", "ignore", "-m", "headrace.testing.rig.ftp_site", str(path)]

    def environment(self) -> dict[str, str]:
        # It finds what we find, however this process came by its modules.
        return {**super().environment(), "PYTHONPATH": ":".join(path for path in sys.path if path)}

    def empty(self) -> None:
        """Remove all files, and forget what was transferred."""
        super().empty()
        self._journal.write_text("")

    def transfers(self) -> list[Transfer]:
        """What went over the line since `empty`, listings left aside."""
        return [Transfer(**told) for told in self._told() if "command" in told]

    def login_count(self) -> int:
        """How often somebody logged in since `empty`."""
        return sum("login" in told for told in self._told())

    def _told(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._journal.read_text().splitlines()] if self._journal.exists() else []


def _checked(settings: Mapping[str, str]) -> dict[str, bool | int]:
    """The settings as the site reads them, or what is wrong with them."""
    orders: dict[str, bool | int] = dict(SWITCHES)
    for name, value in settings.items():
        if name in SWITCHES and value in WORDS:
            orders[name] = WORDS[value]
        elif name in NUMBERS and value.isdigit():
            orders[name] = int(value)
        else:
            possible = f"{'=yes|no, '.join(SWITCHES)}=yes|no; a number for {', '.join(NUMBERS)}"
            raise CallerError(f"the FTP server has no setting {name}={value}", possible)
    return orders
