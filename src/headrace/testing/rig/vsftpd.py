"""A real vsftpd, as many sites run it: no MLSD, and a file that is being uploaded is locked, so that a reader waits.

It knows the users of the machine only. So it runs in a mount namespace of its own, in which the lists of users are ours
and hold one; the machine stays untouched. That needs root.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from headrace.core.errors import OperatorError
from headrace.testing.rig import places
from headrace.testing.rig.children import Launch
from headrace.testing.rig.ftp import CERTIFICATES, USER, FtpFolder
from headrace.testing.rig.needs import DebianPackage, Need

PROGRAM = DebianPackage("vsftpd", "3.0", "vsftpd")
# The password `rig`, as crypt(3) keeps it.
HASHED = "$5$headracerig$YMG.Z2JGmLBJPCUosAi7FAGk8MHkpIs16zi01XEHK48"
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


class VsftpdServer(FtpFolder):
    """Settings are those of vsftpd.conf, by name; `tls=yes` lets nobody in without it (explicit FTPS)."""

    name: ClassVar[str] = "vsftpd"
    needs: ClassVar[tuple[Need, ...]] = (PROGRAM, CERTIFICATES)
    user = "nobody"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        if os.geteuid() != 0:
            raise OperatorError("vsftpd needs root", "the server `ftp` does not")
        super().__init__(settings)

    def prepare(self) -> None:
        super().prepare()
        self.hand_over(self.files)
        (self.home / "empty").mkdir(mode=0o555)
        owner = self.files.stat()
        user = f"{USER}:x:{owner.st_uid}:{owner.st_gid}::{self.files}:/bin/sh\n"
        # It asks for the users `nobody` and `ftp` even where they are of no use.
        self.write("passwd", Path("/etc/passwd").read_text() + user, 0o644)
        self.write("shadow", f"{USER}:{HASHED}:19000:0:99999:7:::\n")
        self.write("pam", PAM, 0o644)

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        given = dict(settings)
        tls = given.pop("tls", "no")
        lines = {**FIXED, **given, "listen_port": str(self.port), "local_root": str(self.files)}
        lines |= {"secure_chroot_dir": f"{self.home}/empty", "vsftpd_log_file": str(self.home / places.LOG)}
        if tls == "yes":
            certificate = str(self.certificate)
            lines |= {**TLS, "rsa_cert_file": certificate, "rsa_private_key_file": certificate}
        path = self.write("vsftpd.conf", "".join(f"{name}={value}\n" for name, value in lines.items()))
        # It reads settings only of a file that is root's.
        os.chown(path, 0, 0)
        mounts = {"pam": "/etc/pam.d/vsftpd", "passwd": "/etc/passwd", "shadow": "/etc/shadow"}
        steps = [shlex.join(("mount", "--bind", str(self.home / name), place)) for name, place in mounts.items()]
        script = " && ".join([*steps, shlex.join(("exec", str(PROGRAM.path()), str(path)))])
        return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script]

    def _launch(self, command: Sequence[str]) -> Launch:
        # It is root until somebody has logged in; only its files are the user's.
        return replace(super()._launch(command), owner=None)
