"""A real vsftpd, as many sites run it: no MLSD, and a file that is being uploaded is locked, so that a reader waits.

It needs root (`private_users`).
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from typing import ClassVar

from headrace.testing.rig import places
from headrace.testing.rig.ftp import ANSWER_S_MAX, CERTIFICATES
from headrace.testing.rig.needs import DebianPackage, Need
from headrace.testing.rig.private_users import PrivateUsersFolder

PROGRAM = DebianPackage("vsftpd", "3.0", "vsftpd")
PAM = "auth required pam_unix.so\naccount required pam_unix.so\n"
FIXED = {
    "listen": "YES",
    "background": "NO",
    "listen_address": "127.0.0.1",
    "pasv_address": "127.0.0.1",
    "anonymous_enable": "NO",
    "local_enable": "YES",
    "write_enable": "YES",
    "local_umask": "022",
    "chroot_local_user": "YES",
    "allow_writeable_chroot": "YES",
    "pam_service_name": "vsftpd",
    "session_support": "NO",
    "xferlog_enable": "YES",
    # Its own cages ask the kernel for more than a container has.
    "isolate": "NO",
    "isolate_network": "NO",
    "seccomp_sandbox": "NO",
}
TLS = {
    "ssl_enable": "YES",
    "force_local_logins_ssl": "YES",
    "force_local_data_ssl": "YES",
    # Python's ftplib opens a session of its own for each data connection.
    "require_ssl_reuse": "NO",
    "ssl_ciphers": "HIGH",
}


class VsftpdServer(PrivateUsersFolder):
    """Settings are those of vsftpd.conf, by name; `tls=yes` lets nobody in without it (explicit FTPS, with
    `implicit_ssl=YES` from the first byte on)."""

    name: ClassVar[str] = "vsftpd"
    needs: ClassVar[tuple[Need, ...]] = (PROGRAM, CERTIFICATES)
    _is_implicit = False

    def prepare(self) -> None:
        super().prepare()
        (self.home / "empty").mkdir(mode=0o555)
        self.write("pam", PAM, 0o644)

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        given = dict(settings)
        lines = dict(FIXED)
        if given.pop("tls", "no") == "yes":
            certificate = str(self.certificate)
            lines |= {**TLS, "rsa_cert_file": certificate, "rsa_private_key_file": certificate}
        self._is_implicit = given.get("implicit_ssl") == "YES"
        lines |= {**given, "listen_port": str(self.port), "local_root": str(self.files)}
        lines |= {"secure_chroot_dir": f"{self.home}/empty", "vsftpd_log_file": str(self.home / places.LOG)}
        path = self.write("vsftpd.conf", "".join(f"{name}={value}\n" for name, value in lines.items()))
        # It reads settings only of a file that is root's.
        os.chown(path, 0, 0)
        pam = ("mount", "--bind", str(self.home / "pam"), "/etc/pam.d/vsftpd")
        return self.in_own_users([str(PROGRAM.path()), str(path)], pam)

    def ask(self) -> None:
        """A server that greets inside of TLS only is asked for its certificate."""
        if self._is_implicit:
            ssl.get_server_certificate(("127.0.0.1", self.port), timeout=ANSWER_S_MAX)
        else:
            super().ask()
