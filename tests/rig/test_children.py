"""The families that children found, looked at while they live."""

from __future__ import annotations

import subprocess
import time

from headrace.testing.rig.children import family

SHORT_LIVED = "while :; do /bin/true & /bin/true & wait; done"
LOOK_S, SEEN_S_MAX = 1.0, 60.0


def test_a_family_can_be_counted_while_its_members_come_and_go() -> None:
    """A server forks for every connection: a child may be gone between its name and its directory."""
    seen = 0
    with subprocess.Popen(["sh", "-c", SHORT_LIVED]) as parent:
        try:
            begun = time.monotonic()
            while time.monotonic() - begun < (LOOK_S if seen else SEEN_S_MAX):
                found = family(parent.pid)
                assert found[0] == parent.pid
                seen += len(found) - 1
        finally:
            parent.kill()
    assert seen > 0
