"""Servers that know the users of the machine only: they run in a mount namespace of their own, in which the lists of
users are ours and hold one more. The machine stays untouched. That needs root.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headrace.core.errors import OperatorError
from headrace.testing.rig.children import Launch
from headrace.testing.rig.ftp import USER, FtpFolder

# The password `rig`, as crypt(3) keeps it.
HASHED = "$5$headracerig$YMG.Z2JGmLBJPCUosAi7FAGk8MHkpIs16zi01XEHK48"


class PrivateUsersFolder(FtpFolder):
    """A server of files that is root until somebody has logged in."""

    user = "nobody"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        if os.geteuid() != 0:
            raise OperatorError(f"{self.name} needs root", "the server `ftp` does not")
        super().__init__(settings)

    def prepare(self) -> None:
        super().prepare()
        self.hand_over(self.files)
        owner = self.files.stat()
        user = f"{USER}:x:{owner.st_uid}:{owner.st_gid}::{self.files}:/bin/sh\n"
        # Servers ask for users such as `nobody` even where they are of no use.
        self.write("passwd", Path("/etc/passwd").read_text() + user, 0o644)
        self.write("shadow", f"{USER}:{HASHED}:19000:0:99999:7:::\n")

    def in_own_users(self, command: Sequence[str], *steps: Sequence[str]) -> Sequence[str]:
        """The command in the namespace, behind further steps that only it sees."""
        mounts = [("mount", "--bind", str(self.home / name), f"/etc/{name}") for name in ("passwd", "shadow")]
        script = " && ".join([*map(shlex.join, [*mounts, *steps]), shlex.join(("exec", *command))])
        return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script]

    def _launch(self, command: Sequence[str]) -> Launch:
        # Only its files are the user's.
        return replace(super()._launch(command), owner=None)
