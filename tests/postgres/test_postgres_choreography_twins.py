"""Every guard of outbox, bus, ledger and leases on PostgreSQL is needed: a contract turns red without it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from postgres_databases import TEMPLATE, emptied

from headrace.adapters.postgres.store import PostgresStore
from headrace.core.deliveries import Subscription
from headrace.core.ledgers import Account
from headrace.testing.contracts import BusContract, LeasesContract, LedgerContract, OutboxContract
from headrace.testing.contracts.bench import Bench
from headrace.testing.contracts.ledger import NAME
from headrace.testing.passage import RealPassage
from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.twins import turns_red


@dataclass(frozen=True, slots=True)
class Twin:
    """A function in which a guard is another text."""

    function: str
    guard: str
    instead: str
    noticed_by: Callable[..., Awaitable[None]]


TWINS = {
    "a key that waits takes the room of others": Twin(
        "claim_events",
        "AND (h.id IS NULL OR e.id <= h.id)",
        "",
        OutboxContract.test_a_key_that_waits_takes_no_room_from_others,
    ),
    "two relays hold the same event": Twin(
        "claim_events",
        "e.claim IS NULL OR",
        "true OR",
        OutboxContract.test_two_relays_do_not_hold_the_same_event,
    ),
    "a relay gets topics that it does not take": Twin(
        "claim_events",
        "AND (wanted = '{}' OR e.topic = ANY (wanted))",
        "",
        OutboxContract.test_a_relay_gets_the_topics_it_names_and_no_others,
    ),
    "an event waits for one that its relay does not take": Twin(
        "claim_events",
        "AND (wanted = '{}' OR b.topic = ANY (wanted))",
        "",
        OutboxContract.test_an_event_waits_for_none_that_its_relay_does_not_take,
    ),
    "what no relay takes fills the window": Twin(
        "claim_events",
        "AND (wanted = '{}' OR f.topic = ANY (wanted))",
        "",
        OutboxContract.test_any_number_that_no_relay_takes_hold_up_nothing,
    ),
    "what is held fills the window": Twin(
        "claim_events",
        "AND (f.claim IS NULL OR f.claim_until < moment)",
        "",
        OutboxContract.test_any_number_that_are_held_hold_up_nothing,
    ),
    "a late relay marks what another holds": Twin(
        "publish_events",
        "AND e.claim = under",
        "",
        OutboxContract.test_a_late_relay_cannot_mark_what_was_taken_over,
    ),
    "a message published twice is delivered twice": Twin(
        "publish",
        "ON CONFLICT DO NOTHING;\n        rang",
        "ON CONFLICT (subscription, message) DO UPDATE SET state = 0;\n        rang",
        BusContract.test_a_message_published_twice_is_delivered_once,
    ),
    "a late consumer's acknowledgement counts": Twin(
        "ack", "AND d.fence = g.fence", "", BusContract.test_a_late_consumer_is_refused
    ),
    "a lost consumer charges everything it held": Twin(
        "receive",
        "d.suspect::integer",
        "1",
        BusContract.test_only_the_message_that_was_alone_dies_of_lost_consumers,
    ),
    "an account finishes before its seal": Twin(
        "finish_account", "AND a.sealed", "", LedgerContract.test_nothing_finishes_before_the_seal
    ),
    "an account finishes short of its total": Twin(
        "finish_account",
        "AND a.done + a.errors = a.total",
        "",
        LedgerContract.test_the_last_item_of_a_sealed_account_crosses_the_line,
    ),
    "an item counts twice": Twin(
        "ledger_settle",
        "ON CONFLICT DO NOTHING",
        "ON CONFLICT ON CONSTRAINT ledger_item_pkey DO UPDATE SET ok = excluded.ok",
        LedgerContract.test_an_item_counts_once_by_its_first_entry,
    ),
    "a live lease is taken over": Twin(
        "takeover",
        "AND (held.holder = '' OR held.until < clock_timestamp())",
        "",
        LeasesContract.test_a_live_lease_is_not_taken_over,
    ),
    "a takeover ignores who was faster": Twin(
        "takeover", "held.epoch = seen AND", "", LeasesContract.test_a_takeover_needs_the_epoch_it_saw
    ),
    "a fence stays as it was": Twin(
        "takeover",
        "fence = greatest(headrace.mint(), l.fence + 1)",
        "fence = l.fence",
        LeasesContract.test_fences_rise_over_releases_and_takeovers,
    ),
}


@pytest.fixture(scope="module")
def url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database(TEMPLATE) as url:
        yield url


@pytest.fixture(scope="module")
def shared(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    asyncio.run(store.close())


@pytest.fixture
def broken(url: str, name: str) -> Iterator[None]:
    """An empty database in which one guard is missing for the time of a test."""
    twin = TWINS[name]
    emptied(url)
    with psycopg.connect(url, autocommit=True) as connection:
        found: Any = connection.execute(
            "SELECT pg_get_functiondef(%s::regproc)", (f"headrace.{twin.function}",)
        ).fetchone()
        whole = str(found[0])
        assert twin.guard in whole, f"{twin.function} has no {twin.guard!r}"
        connection.execute(whole.replace(twin.guard, twin.instead).encode())
        yield
        connection.execute(whole.encode())


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.usefixtures("broken")
async def test_a_missing_guard_is_noticed(shared: PostgresStore, name: str) -> None:
    await shared.bus.subscribe(Subscription("pages", ("page.*",), deliveries_max=2))
    await shared.ledger.open(Account(NAME))
    passage = RealPassage()
    fixtures = {
        "store": shared,
        "opened": shared,
        "bus": shared.bus,
        "passage": passage,
        "bench": Bench(shared, passage),
    }
    await turns_red(TWINS[name].noticed_by, **fixtures)
