"""Keeps servers of the rig running: one that has died is started again on its data, as an installation's would be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.services import Pauses

if TYPE_CHECKING:
    from headrace.testing import Server

LOOK_S = 0.5


@contextmanager
def kept(servers: Sequence[Server], say: Callable[[str], None]) -> Iterator[None]:
    """Look after these servers for as long as the block runs, in a thread: a start takes a while."""
    stop = threading.Event()
    thread = threading.Thread(target=_keep, args=(servers, say, stop), name="rig-keeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        # A server that is being started would outlive whoever removes it.
        thread.join()


def _keep(servers: Sequence[Server], say: Callable[[str], None], stop: threading.Event) -> None:
    pauses = Pauses()
    while not stop.wait(LOOK_S):
        for server in servers:
            if server.running or stop.is_set():
                continue
            say(f"{server.name} {server.url} has died, and is started again …")
            try:
                server.start()
                pauses.reset()
            except (HeadraceError, OSError) as error:
                say(f"{server.name} did not start: {error}")
                stop.wait(pauses.next_s())
