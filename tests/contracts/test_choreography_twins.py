"""Every guard of outbox, inbox, bus, ledger and leases has a broken twin, and a contract notices it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.statements import load_statements
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.deliveries import Subscription
from headrace.core.ledgers import Account
from headrace.testing.contracts import BusContract, LeasesContract, LedgerContract, OutboxContract
from headrace.testing.contracts.bench import Bench
from headrace.testing.contracts.ledger import NAME
from headrace.testing.passage import ManualClock, ManualPassage
from headrace.testing.twins import turns_red

OUTBOX, BUS, LEDGER, LEASES = OutboxContract, BusContract, LedgerContract, LeasesContract


@dataclass(frozen=True)
class Twin:
    """A guard taken out of one statement, and the test of a contract that must go red."""

    bug: str
    statement: str
    guard: str
    instead: str
    contract: type
    test: str


TWINS = [
    Twin(
        "an event overtakes an earlier one of its key",
        "outbox_claim",
        "AND b.claim IS NOT NULL",
        "AND b.claim IS NOT NULL AND false",
        OUTBOX,
        "test_an_event_does_not_overtake_an_earlier_one_of_its_key",
    ),
    Twin(
        "two relays hold the same event",
        "outbox_claim",
        "(e.claim IS NULL OR e.claim_until < :now OR e.claim_boot <> :boot)",
        "true",
        OUTBOX,
        "test_two_relays_do_not_hold_the_same_event",
    ),
    Twin(
        "a lost relay's events are never told",
        "outbox_claim",
        "e.claim IS NULL OR e.claim_until < :now",
        "e.claim IS NULL",
        OUTBOX,
        "test_what_a_lost_relay_held_is_taken_over",
    ),
    Twin(
        "a relay gets topics that it does not take",
        "outbox_claim",
        "AND (:topics = '[]' OR e.topic IN (SELECT value FROM json_each(:topics)))",
        "AND :topics <> ''",
        OUTBOX,
        "test_a_relay_gets_the_topics_it_names_and_no_others",
    ),
    Twin(
        "an event waits for one that its relay does not take",
        "outbox_claim",
        "AND (:topics = '[]' OR b.topic IN (SELECT value FROM json_each(:topics)))",
        "AND :topics <> ''",
        OUTBOX,
        "test_an_event_waits_for_none_that_its_relay_does_not_take",
    ),
    Twin(
        "the lag of some topics is that of all",
        "outbox_lag",
        "AND (:topics = '[]' OR topic IN (SELECT value FROM json_each(:topics)))",
        "AND :topics <> ''",
        OUTBOX,
        "test_the_lag_of_some_topics_counts_these",
    ),
    Twin(
        "a published event is forgotten with its key",
        "outbox_forget_key",
        "AND published_at IS NULL",
        "",
        OUTBOX,
        "test_unpublished_events_of_a_key_can_be_forgotten",
    ),
    Twin(
        "the end of a job is forgotten with its key",
        "outbox_forget_key",
        "AND job = ''",
        "",
        OUTBOX,
        "test_the_events_of_a_job_itself_are_not_forgotten",
    ),
    Twin(
        "a late relay marks what another holds",
        "outbox_published",
        "AND claim = :fence",
        "AND :fence > 0",
        OUTBOX,
        "test_a_late_relay_cannot_mark_what_was_taken_over",
    ),
    Twin(
        "a message has its consequence twice",
        "inbox_insert",
        "ON CONFLICT DO NOTHING",
        "ON CONFLICT DO UPDATE SET consumed_at = excluded.consumed_at",
        OUTBOX,
        "test_a_message_has_its_consequence_once",
    ),
    Twin(
        "inboxes are shared by subscriptions",
        "inbox_insert",
        "VALUES (:subscription, :event_id, :now)",
        "VALUES (substr(:subscription, 1, 0), :event_id, :now)",
        OUTBOX,
        "test_each_subscription_has_an_inbox_of_its_own",
    ),
    Twin(
        "a message published twice is delivered twice",
        "bus_route",
        "INSERT OR IGNORE INTO headrace_delivery",
        "INSERT OR REPLACE INTO headrace_delivery",
        BUS,
        "test_a_message_published_twice_is_delivered_once",
    ),
    Twin(
        "a late consumer's acknowledgement counts",
        "bus_ack",
        "AND fence = :fence",
        "AND :fence > 0",
        BUS,
        "test_a_late_consumer_is_refused",
    ),
    Twin(
        "a message is in two hands",
        "bus_lost",
        "until < :now OR",
        "until > :now OR",
        BUS,
        "test_a_message_is_in_one_hand_at_a_time",
    ),
    Twin(
        "an expired hold is revived",
        "bus_renew",
        "AND until >= :now",
        "AND :now > 0",
        BUS,
        "test_a_late_consumer_is_refused",
    ),
    Twin(
        "a lost consumer charges everything it held",
        "bus_lost",
        "failures + suspect",
        "failures + 1",
        BUS,
        "test_only_the_message_that_was_alone_dies_of_lost_consumers",
    ),
    Twin(
        "a repeated requeue is a second failure",
        "bus_requeue",
        "AND fence = :fence AND state = 2",
        "AND fence = :fence",
        BUS,
        "test_a_repeated_requeue_is_one_failure",
    ),
    Twin(
        "poison comes for ever",
        "bus_requeue",
        "failures + 1 >= :deliveries_max THEN 4",
        "failures + 1 >= :deliveries_max AND false THEN 4",
        BUS,
        "test_the_last_allowed_failure_makes_a_dead_letter",
    ),
    Twin(
        "an item counts twice",
        "ledger_known",
        "WHERE account = :account",
        "WHERE account = :account AND false",
        LEDGER,
        "test_an_item_counts_once_by_its_first_entry",
    ),
    Twin(
        "a source expects twice",
        "ledger_source_count",
        "WHERE account = :account",
        "WHERE account = :account AND false",
        LEDGER,
        "test_each_source_expects_once",
    ),
    Twin(
        "an account finishes before its seal",
        "ledger_finish",
        "AND sealed = 1",
        "",
        LEDGER,
        "test_nothing_finishes_before_the_seal",
    ),
    Twin(
        "an account finishes short of its total",
        "ledger_finish",
        "AND done + errors = total",
        "",
        LEDGER,
        "test_the_last_item_of_a_sealed_account_crosses_the_line",
    ),
    Twin(
        "a release forgets the fence",
        "lease_release",
        "UPDATE headrace_lease SET holder = ''",
        "UPDATE headrace_lease SET holder = '', fence = 0",
        LEASES,
        "test_a_release_keeps_the_fence_and_frees_the_resource",
    ),
    Twin(
        "a fence starts again",
        "fence_mint",
        "max(value + 1, :now_us)",
        "max(value, 0) + :now_us * 0 + 1",
        LEASES,
        "test_a_fence_is_minted_above_the_wall_clock",
    ),
    Twin(
        "a live lease is taken over",
        "lease_grant",
        "AND (holder = '' OR until < :now OR boot <> :boot)",
        "AND :now > 0",
        LEASES,
        "test_a_live_lease_is_not_taken_over",
    ),
    Twin(
        "a takeover ignores who was faster",
        "lease_grant",
        "AND epoch = :epoch",
        "AND :epoch >= 0",
        LEASES,
        "test_a_takeover_needs_the_epoch_it_saw",
    ),
    Twin(
        "an expired lease is revived",
        "lease_renew",
        "AND until >= :now",
        "AND :now > 0",
        LEASES,
        "test_an_expired_lease_is_not_revived",
    ),
    Twin(
        "a late holder releases another's lease",
        "lease_release",
        "AND fence = :fence",
        "AND :fence > 0",
        LEASES,
        "test_a_late_holder_cannot_release_what_was_taken_over",
    ),
]


async def fixtures(twin: Twin, statements: Mapping[str, str]) -> dict[str, Any]:
    """What the fixtures of the contracts would bring."""
    clock = ManualClock()
    store = SqliteStore(InlineDatabase(), clock, statements)
    passage = ManualPassage(clock)
    if twin.contract is BUS:
        await store.bus.subscribe(Subscription("pages", ("page.*",), deliveries_max=2))
    if twin.contract is LEDGER:
        await store.ledger.open(Account(NAME))
    bench = Bench(store, passage)
    return {"store": store, "bus": store.bus, "opened": store, "passage": passage, "bench": bench, "handles": [store]}


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.bug)
async def test_a_missing_guard_is_noticed(twin: Twin) -> None:
    statements = load_statements()
    assert twin.guard in statements[twin.statement]
    statements[twin.statement] = statements[twin.statement].replace(twin.guard, twin.instead)
    await turns_red(getattr(twin.contract, twin.test), **await fixtures(twin, statements))
