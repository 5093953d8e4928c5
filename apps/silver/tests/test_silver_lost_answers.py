"""A tool whose COMMIT is not answered: what became of it is asked for, never assumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from silver_desk import ask, bar, consume, put
from waiting import until

from headrace.errors import Unknown, Unreachable
from headrace.testing.rig.proxy import Proxy
from headrace_silver.queue.dead_letters import LetterFilter, redrive
from headrace_silver.stores.postgres.store import PostgresSilverStore
from headrace_silver.stores.silver_store import FLAG, SilverStore, open_store

WAITING = "SELECT count(*) FROM task_q WHERE status = 'ready'"


@pytest.fixture
def proxy(silver_schema: str) -> Iterator[Proxy]:
    with Proxy(silver_schema) as proxy:
        yield proxy


@pytest.fixture
def far_store(proxy: Proxy) -> Iterator[SilverStore]:
    """A store that is reached through the proxy."""
    store = open_store(proxy.url)
    store.create()
    yield store
    store.close()


def test_tasks_whose_commit_was_not_answered_are_put_once(
    far_store: SilverStore, proxy: Proxy, silver_schema: str
) -> None:
    proxy.cut_reply_to(b"COMMIT")
    put(far_store, [bar("VNM"), bar("FPT")])
    assert proxy.cuts == 1
    assert ask(silver_schema, WAITING) == [(2,)]


class ImpatientSilverStore(PostgresSilverStore):
    outcome_s_max = 0.2


def test_where_nobody_can_be_asked_the_outcome_is_called_unknown(proxy: Proxy) -> None:
    store = ImpatientSilverStore(proxy.url)
    store.create()
    proxy.cut_reply_to(b"COMMIT")
    proxy.refuse()
    with pytest.raises(Unknown, match="cannot be asked") as told:
        put(store, [bar("VNM")])
    assert proxy.cuts == 1
    assert "headrace silver flag --count" in told.value.hint
    store.close()


def test_a_redrive_whose_commit_was_not_answered_is_done_once(
    far_store: SilverStore, proxy: Proxy, silver_schema: str
) -> None:
    put(far_store, [bar("vnm"), bar("fpt")])
    assert consume(far_store).rejects == 2
    proxy.cut_reply_to(b"COMMIT")
    assert redrive(far_store, LetterFilter(), 10).ready == 2
    assert proxy.cuts == 1
    assert ask(silver_schema, WAITING) == [(2,)]
    assert redrive(far_store, LetterFilter(), 10).ready == 0


def test_a_lock_that_went_with_its_connection_while_tables_were_made_is_not_held(
    far_store: SilverStore, proxy: Proxy, silver_schema: str
) -> None:
    ask(silver_schema, "DROP TABLE silver_revision")
    other = open_store(silver_schema)
    proxy.cut_reply_to(b"COMMIT")
    with pytest.raises(Unreachable, match="lock"):
        far_store.lock()
    assert proxy.cuts == 1
    assert other.lock()
    other.unlock()
    assert far_store.lock()
    assert not other.lock()
    other.close()


def test_no_batch_is_taken_without_a_lock_that_went_with_its_connection(far_store: SilverStore, proxy: Proxy) -> None:
    assert far_store.lock()
    proxy.reset()
    for _ in range(2):
        # The first finds the connection lost, the second opens another.
        with suppress(Unreachable):
            far_store.wait(0)
    assert far_store.rows("put_flag", {"name": FLAG}) == []
    with pytest.raises(Unreachable, match="lock"), far_store.batch(1):
        pass
    # The server needs a moment to end the session whose line is gone.
    until(far_store.lock, "the lock is free again")
    with far_store.batch(1) as batch:
        assert batch.tasks == []


def test_who_gave_the_lock_back_may_go_on_without_it(far_store: SilverStore, proxy: Proxy) -> None:
    assert far_store.lock()
    proxy.reset()
    with suppress(Unreachable):
        far_store.wait(0)
    far_store.unlock()
    with far_store.batch(1) as batch:
        assert batch.tasks == []
