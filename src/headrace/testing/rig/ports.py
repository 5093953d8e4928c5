"""Ports of our own on loopback, for as long as this process lives.

A port picked by binding to 0 lies where the kernel takes ports for outgoing connections: while a killed server is
down, anybody's connection may take it and the server cannot come back. So ports are picked below that range, and a
name in the abstract namespace of Unix sockets reserves each one: exclusive on the machine, and gone with the process.
"""

from __future__ import annotations

import secrets
import socket
import sys
from pathlib import Path

LOWEST = 20_000
TRIES = 2_000
# A chance of our own: a test may have seeded that of everybody.
_chance = secrets.SystemRandom()
_held: dict[int, socket.socket] = {}


def reserve_port(side_by_side: int = 1) -> int:
    """A port that nobody uses and that no other rig on this machine will pick; the first of so many side by side."""
    for first in _chance.sample(range(LOWEST, _highest() - side_by_side + 1), TRIES):
        held = {port: holder for port in range(first, first + side_by_side) if (holder := _hold(port))}
        if len(held) == side_by_side and all(map(_is_free, held)):
            _held.update(held)
            return first
        for holder in held.values():
            holder.close()
    raise RuntimeError(f"no free port between {LOWEST} and {_highest()}")


def give_back(port: int) -> None:
    holder = _held.pop(port, None)
    if holder is not None:
        holder.close()


def _hold(port: int) -> socket.socket | None:
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        # Elsewhere there are no such names, and no rig that would pick the same.
        if sys.platform == "linux":
            holder.bind(f"\0headrace-rig-port-{port}")
    except OSError:
        holder.close()
        return None
    return holder


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _highest() -> int:
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range")
    lowest_outgoing = int(limits.read_text().split()[0]) if limits.exists() else 32_768
    return lowest_outgoing if lowest_outgoing > LOWEST + TRIES else 60_000
