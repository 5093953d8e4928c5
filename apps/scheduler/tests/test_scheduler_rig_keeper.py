"""`up --rig` looks after its servers."""

from __future__ import annotations

import os
import signal

from waiting import until

from headrace.testing import new_server
from headrace_scheduler.rig_keeper import kept


def test_a_server_that_died_is_started_again_and_one_that_is_stopped_at_the_end_is_not() -> None:
    said = list[str]()
    with new_server("redis") as server:
        with kept([server], said.append):
            dead = server.pid
            os.kill(dead, signal.SIGKILL)
            until(lambda: server.running and server.pid != dead, "another one runs")
            server.wait_ready()
        assert [line.split()[0] for line in said] == ["redis"]
        server.kill()
        assert not server.running
    assert len(said) == 1
