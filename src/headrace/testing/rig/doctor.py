"""What this machine has of all that the rig needs: parts of servers and tools, and the surroundings of the rig itself.

Looks only; nothing is changed but a socket bound for a moment.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.testing.rig.catalogue import SERVERS, TOOLS, needs_of
from headrace.testing.rig.needs import Need

FREE_BYTES_MIN = 2 * 10**9
GIGABYTE = 10**9


@dataclass(frozen=True, slots=True)
class RigFinding:
    """One part: where it is and in which version, and if it does not do, the line that helps."""

    name: str
    part: str
    fine: bool
    place: str
    version: str
    wanted: str
    command: str


def examine(names: Sequence[str] = ()) -> list[RigFinding]:
    """The parts of these servers and tools (all, if none is named); the first of a server is the server itself."""
    return [_look(name, need) for name in names or (*SERVERS, *TOOLS) for need in needs_of(name)]


def surroundings() -> list[RigFinding]:
    """What the rig needs of the machine whichever server is asked for."""
    return [_system(), _setpriv(), _children(), _names(), _room()]


def _look(name: str, need: Need) -> RigFinding:
    sight = need.seen()
    if sight is None:
        return RigFinding(name, need.name, False, "", "", need.version, need.command())
    return RigFinding(name, need.name, sight.fits, str(sight.place), sight.version, need.version, need.command())


def _system() -> RigFinding:
    version = os.uname().release
    return RigFinding("system", "Linux", sys.platform == "linux", "", version, "", "the rig runs on Linux only")


def _setpriv() -> RigFinding:
    place = shutil.which("setpriv")
    line = "sudo apt-get install -y util-linux"
    return RigFinding("system", "setpriv", place is not None, place or "", "", "", line)


def _children() -> RigFinding:
    """A family of processes is found by it, so that none is forgotten."""
    place = Path(f"/proc/self/task/{os.getpid()}/children")
    line = "mount /proc; the kernel needs CONFIG_PROC_CHILDREN"
    return RigFinding("system", "children in /proc", place.exists(), "/proc", "", "", line)


def _names() -> RigFinding:
    """Ports are reserved by them."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(f"\0headrace-doctor-{os.getpid()}")
            fine = True
        except OSError:
            fine = False
    return RigFinding("system", "abstract sockets", fine, "", "", "", "a sandbox forbids them: run outside of it")


def _room() -> RigFinding:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    told, wanted = f"{free / GIGABYTE:.1f} GB free", f"{FREE_BYTES_MIN / GIGABYTE:.0f} GB"
    return RigFinding(
        "system", "room", free >= FREE_BYTES_MIN, folder, told, wanted, f"free {wanted} there, or set TMPDIR"
    )
