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
class Finding:
    """One part: where it is and in which version, and if it does not do, the line that helps."""

    name: str
    part: str
    fine: bool
    place: str
    version: str
    wanted: str
    command: str


def examine(names: Sequence[str] = ()) -> list[Finding]:
    """The parts of these servers and tools (all, if none is named); the first of a server is the server itself."""
    return [_look(name, need) for name in names or (*SERVERS, *TOOLS) for need in needs_of(name)]


def surroundings() -> list[Finding]:
    """What the rig needs of the machine whichever server is asked for."""
    return [_system(), _setpriv(), _children(), _names(), _room()]


def _look(name: str, need: Need) -> Finding:
    sight = need.seen()
    if sight is None:
        return Finding(name, need.name, False, "", "", need.version, need.command())
    return Finding(name, need.name, sight.fits, str(sight.place), sight.version, need.version, need.command())


def _system() -> Finding:
    version = os.uname().release
    return Finding("system", "Linux", sys.platform == "linux", "", version, "", "the rig runs on Linux only")


def _setpriv() -> Finding:
    place = shutil.which("setpriv")
    line = "sudo apt-get install -y util-linux"
    return Finding("system", "setpriv", place is not None, place or "", "", "", line)


def _children() -> Finding:
    """A family of processes is found by it, so that none is forgotten."""
    place = Path(f"/proc/self/task/{os.getpid()}/children")
    line = "mount /proc; the kernel needs CONFIG_PROC_CHILDREN"
    return Finding("system", "children in /proc", place.exists(), "/proc", "", "", line)


def _names() -> Finding:
    """Ports are reserved by them."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(f"\0headrace-doctor-{os.getpid()}")
            fine = True
        except OSError:
            fine = False
    return Finding("system", "abstract sockets", fine, "", "", "", "a sandbox forbids them: run outside of it")


def _room() -> Finding:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    told, wanted = f"{free / GIGABYTE:.1f} GB free", f"{FREE_BYTES_MIN / GIGABYTE:.0f} GB"
    return Finding(
        "system", "room", free >= FREE_BYTES_MIN, folder, told, wanted, f"free {wanted} there, or set TMPDIR"
    )
