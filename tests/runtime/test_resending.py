"""A write that is sent again until it is answered: what its caller hears if it never is."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.errors import HeadraceError, Unknown, Unreachable
from headrace.core.jobs import Submission, Submitted
from headrace.runtime.engine import Engine
from headrace.runtime.flow import Flow
from headrace.runtime.open_tables import RESENDS_MAX
from headrace.runtime.seams import Seams
from headrace.testing.simulation.loop import VirtualLoop

flow = Flow("orders")


@flow.stage
async def deliver(article: str) -> None: ...


class FailingStore:
    """A store that fails every submit, the first one with `first`."""

    def __init__(self, first: HeadraceError) -> None:
        self._store, self._first = SqliteStore(InlineDatabase()), first
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def submit(self, submission: Submission) -> Submitted:
        self.calls += 1
        raise self._first if self.calls == 1 else Unreachable("the store does not answer")


@pytest.mark.parametrize(("first", "heard"), [(Unknown("lost"), Unknown), (Unreachable("gone"), Unreachable)])
def test_an_outage_after_a_lost_answer_does_not_mean_that_nothing_was_done(
    first: HeadraceError, heard: type[HeadraceError]
) -> None:
    store: Any = FailingStore(first)
    loop = VirtualLoop(Random(1))
    asyncio.set_event_loop(loop)
    try:
        with pytest.raises(heard):
            loop.run_until_complete(loop.spawn(loop.system, Engine(store, Seams()).submit(flow, "bolt")))
    finally:
        asyncio.set_event_loop(None)
        loop.bury()
    assert store.calls == RESENDS_MAX + 1
