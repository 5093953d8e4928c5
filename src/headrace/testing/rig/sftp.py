"""A real OpenSSH that gives one user one directory by SFTP and nothing else. It needs root (`private_users`).

There is no cage: the user sees the machine's files as far as permissions go, and begins in `files`. A path that does
not begin with `/` leads there.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from headrace.testing.rig.ftp import PASSWORD, USER
from headrace.testing.rig.needs import DebianPackage, Need
from headrace.testing.rig.private_users import PrivateUsersFolder

PROGRAM = DebianPackage("openssh-server", "9.2", "sshd")
ANSWER_S_MAX = 5.0
FIXED = {
    "ListenAddress": "127.0.0.1",
    "PasswordAuthentication": "yes",
    "PubkeyAuthentication": "no",
    "UsePAM": "no",
    "UseDNS": "no",
    "PidFile": "none",
    "Subsystem": "sftp internal-sftp",
    "ForceCommand": "internal-sftp",
}


class SftpServer(PrivateUsersFolder):
    """Settings are those of sshd_config, by name."""

    name: ClassVar[str] = "sftp"
    needs: ClassVar[tuple[Need, ...]] = (PROGRAM,)

    @property
    def url(self) -> str:
        return f"sftp://{USER}:{PASSWORD}@127.0.0.1:{self.port}"

    @property
    def known_hosts(self) -> Path:
        """What a client trusts to reach it."""
        kind, key, *_ = (self.home / "host_key.pub").read_text().split()
        return self.write("known_hosts", f"[127.0.0.1]:{self.port} {kind} {key}\n", 0o644)

    def prepare(self) -> None:
        super().prepare()
        self.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.home / "host_key"))
        os.chmod(self.home / "host_key", 0o600)

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        own = {"Port": str(self.port), "HostKey": str(self.home / "host_key")}
        lines = {**FIXED, **settings, **own}
        path = self.write("sshd_config", "".join(f"{name} {value}\n" for name, value in lines.items()))
        # The directory of its own that it wants is not on a machine that never ran it.
        steps = (("mount", "-t", "tmpfs", "headrace", "/run"), ("mkdir", "/run/sshd"))
        return self.in_own_users([str(PROGRAM.path()), "-D", "-e", "-f", str(path)], *steps)

    def ask(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port), ANSWER_S_MAX) as connection:
            if not connection.recv(8).startswith(b"SSH-2.0-"):
                raise ConnectionError("no greeting")
