"""Outbox and inbox: an event per change, told in order by whoever holds it; a consequence per message."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from headrace.core.consequences import Consequence
from headrace.core.errors import CallerError, Conflict, NotFound, TooLarge
from headrace.core.events import Batch, Event, Lag
from headrace.core.jobs import Submission
from headrace.core.ledgers import Account, AccountTally, Entry, Expect, Seal, Settle
from headrace.core.parcels import PAYLOAD_BYTES_MAX
from headrace.core.tally import JobState
from headrace.ports.parts import Parts
from headrace.testing.contracts.bench import Bench, died, external, flow, parcel, work
from headrace.testing.contracts.only import only
from headrace.testing.passage import Passage

PLAIN = flow(work("read"))
MANY = 5_100
"""More events than a claim looks at."""


def told(number: int, key: str = "", topic: str = "order.placed") -> Event:
    return Event(f"e{number}", topic, f"body {number}".encode(), key, {"traceparent": f"00-{number}"})


def ids(batch: Batch) -> list[str]:
    return [event.event_id for event in batch.events]


class OutboxContract:
    """`ports.outbox.Outbox` and `ports.outbox.Inbox`. Brings: `store` (Parts), `handles`, `passage`."""

    @pytest.fixture
    def bench(self, store: Parts, passage: Passage) -> Bench:
        return Bench(store, passage)

    @pytest.fixture
    async def handles(self, store: Parts) -> Sequence[Parts]:
        return [store]

    # What is told

    async def test_a_finish_line_is_told_with_its_fixed_id(self, store: Parts, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        assert ids(await store.outbox.claim("relay", 10, 30.0)) == []
        await bench.drain(job)
        event = only((await store.outbox.claim("relay", 10, 30.0)).events)
        assert (event.event_id, event.topic, event.key) == (f"{job}.1.completed", "job.completed", job)
        told_of = json.loads(event.body)
        assert (told_of["job"], told_of["state"]) == (job, "finished")
        assert event.happened_at > 0

    async def test_each_generation_tells_its_own_counts_and_the_state_of_the_whole_job(
        self, store: Parts, bench: Bench
    ) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        await bench.accept(await bench.claim("read"), [0], dead=(died(1), died(2)))
        for _ in range(2):
            await bench.redrive(job=job, limit=1)
            await bench.drain(job)
        bodies = [json.loads(event.body) for event in (await store.outbox.claim("relay", 10, 30.0)).events]
        assert [body["generation"] for body in bodies] == [1, 2, 3]
        assert [body["state"] for body in bodies] == ["failed", "failed", "finished"]
        assert [body["stages"]["read"]["done"] for body in bodies] == [1, 1, 1]
        assert [body["overall"]["read"]["dead"] for body in bodies] == [2, 1, 0]
        assert bodies[2]["overall"]["read"] == {"total": 3, "done": 3, "dead": 0, "cancelled": 0}

    async def test_an_event_of_ones_own_is_told_as_it_was_given(self, store: Parts) -> None:
        event = Event("e1", "order.placed", b"\x00\xff not text", "order-7", {"traceparent": "00-ab", "n": "ü"})
        assert await store.outbox.add([event]) == [True]
        found = only((await store.outbox.claim("relay", 10, 30.0)).events)
        assert (found.event_id, found.topic, found.body, found.key) == ("e1", "order.placed", event.body, "order-7")
        assert dict(found.headers) == dict(event.headers)

    async def test_an_event_id_seen_before_is_the_same_event(self, store: Parts) -> None:
        assert await store.outbox.add([told(1), told(2)]) == [True, True]
        assert await store.outbox.add([Event("e1", "other.topic", b"other"), told(3)]) == [False, True]
        batch = await store.outbox.claim("relay", 10, 30.0)
        assert ids(batch) == ["e1", "e2", "e3"]
        assert batch.events[0].body == b"body 1"

    @pytest.mark.parametrize("topic", ["", "a..b", "a b", "a.*", "#", "x" * 300])
    async def test_a_topic_that_nobody_could_subscribe_to_is_refused(self, store: Parts, topic: str) -> None:
        with pytest.raises(CallerError):
            await store.outbox.add([Event("e1", topic)])
        assert await store.outbox.lag() == Lag()

    async def test_a_body_over_the_limit_is_refused_by_its_name(self, store: Parts) -> None:
        with pytest.raises(TooLarge, match="PAYLOAD_BYTES_MAX"):
            await store.outbox.add([Event("e1", "a", b"x" * (PAYLOAD_BYTES_MAX + 1))])

    # Holding

    async def test_two_relays_do_not_hold_the_same_event(self, store: Parts) -> None:
        await store.outbox.add([told(number) for number in range(6)])
        first, second = await store.outbox.claim("a", 4, 30.0), await store.outbox.claim("b", 4, 30.0)
        assert ids(first) == ["e0", "e1", "e2", "e3"]
        assert ids(second) == ["e4", "e5"]
        assert second.fence > first.fence

    @pytest.mark.parametrize("topics", [[], ["order.placed"]])
    async def test_a_claim_of_what_is_held_is_empty_and_mints_no_fence(self, store: Parts, topics: list[str]) -> None:
        await store.outbox.add([told(1), told(2)])
        await store.outbox.claim("a", 10, 30.0)
        assert await store.outbox.claim("b", 10, 30.0, topics) == Batch()

    async def test_a_published_event_is_told_no_more(self, store: Parts) -> None:
        await store.outbox.add([told(number) for number in range(3)])
        batch = await store.outbox.claim("relay", 2, 30.0)
        assert await store.outbox.published(batch.fence, ids(batch)) == 2
        assert await store.outbox.published(batch.fence, ids(batch)) == 2
        assert ids(await store.outbox.claim("relay", 10, 30.0)) == ["e2"]

    async def test_what_a_lost_relay_held_is_taken_over(self, store: Parts, passage: Passage) -> None:
        await store.outbox.add([told(1), told(2)])
        lost = await store.outbox.claim("a", 10, passage.brief_s)
        assert ids(await store.outbox.claim("b", 10, 30.0)) == []
        await passage.past(passage.brief_s)
        taken = await store.outbox.claim("b", 10, 30.0)
        assert ids(taken) == ids(lost) == ["e1", "e2"]
        assert taken.fence > lost.fence

    async def test_a_late_relay_cannot_mark_what_was_taken_over(self, store: Parts, passage: Passage) -> None:
        await store.outbox.add([told(1), told(2)])
        late = await store.outbox.claim("a", 10, passage.brief_s)
        await passage.past(passage.brief_s)
        taken = await store.outbox.claim("b", 10, passage.brief_s)
        assert await store.outbox.published(late.fence, ids(late)) == 0
        await store.outbox.release(late.fence, ids(late))
        assert (await store.outbox.claim("a", 10, 30.0)).events == ()
        assert await store.outbox.published(taken.fence, ids(taken)) == 2

    async def test_a_late_mark_counts_while_nobody_has_taken_over(self, store: Parts, passage: Passage) -> None:
        await store.outbox.add([told(1)])
        batch = await store.outbox.claim("a", 10, passage.brief_s)
        await passage.past(passage.brief_s)
        assert await store.outbox.published(batch.fence, ["e1"]) == 1
        assert ids(await store.outbox.claim("a", 10, 30.0)) == []

    async def test_what_is_given_back_can_be_claimed_at_once(self, store: Parts) -> None:
        await store.outbox.add([told(1), told(2)])
        batch = await store.outbox.claim("a", 10, 30.0)
        assert await store.outbox.published(batch.fence, ["e1"]) == 1
        await store.outbox.release(batch.fence, ids(batch))
        assert ids(await store.outbox.claim("b", 10, 30.0)) == ["e2"]

    async def test_what_is_given_back_for_later_waits(self, store: Parts, passage: Passage) -> None:
        await store.outbox.add([told(1, "k"), told(2, "k"), told(3)])
        batch = await store.outbox.claim("a", 1, 30.0)
        await store.outbox.release(batch.fence, ids(batch), passage.brief_s)
        assert ids(await store.outbox.claim("b", 10, passage.brief_s)) == ["e3"]
        await passage.past(passage.brief_s)
        assert ids(await store.outbox.claim("b", 10, 30.0)) == ["e1", "e2", "e3"]

    # Order

    async def test_an_event_does_not_overtake_an_earlier_one_of_its_key(self, store: Parts) -> None:
        await store.outbox.add([told(1, "k"), told(2, "k"), told(3, "other"), told(4, "k")])
        first = await store.outbox.claim("a", 1, 30.0)
        assert ids(first) == ["e1"]
        assert ids(await store.outbox.claim("b", 10, 30.0)) == ["e3"]
        await store.outbox.published(first.fence, ids(first))
        assert ids(await store.outbox.claim("b", 10, 30.0)) == ["e2", "e4"]

    async def test_a_key_that_waits_takes_no_room_from_others(self, store: Parts) -> None:
        await store.outbox.add([*(told(number, "k") for number in range(5)), told(5, "other"), told(6)])
        assert ids(await store.outbox.claim("a", 1, 30.0)) == ["e0"]
        assert ids(await store.outbox.claim("b", 2, 30.0)) == ["e5", "e6"]

    async def test_an_event_of_a_job_waits_for_the_jobs_own(self, store: Parts, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1})
        await bench.drain(job)
        await store.outbox.add([told(1, key=job), told(2)])
        held = await store.outbox.claim("a", 1, 30.0)
        assert ids(held) == [f"{job}.1.completed"]
        assert ids(await store.outbox.claim("b", 10, 30.0)) == ["e2"]

    async def test_many_relays_tell_everything_in_order(self, handles: Sequence[Parts]) -> None:
        outbox = handles[0].outbox
        for first in range(0, 60, 6):
            await outbox.add([told(number, f"k{number % 4}") for number in range(first, first + 6)])
        heard: list[str] = []

        async def relay(store: Parts, name: str) -> None:
            for _ in range(400):
                batch = await store.outbox.claim(name, 5, 30.0)
                heard.extend(ids(batch))
                if batch.events:
                    assert await store.outbox.published(batch.fence, ids(batch)) == len(batch.events)
                elif (await store.outbox.lag()).unpublished == 0:
                    return

        await asyncio.gather(*(relay(handles[n % len(handles)], f"relay-{n}") for n in range(4)))
        assert sorted(heard) == sorted(f"e{number}" for number in range(60))
        for key in range(4):
            line = [int(name[1:]) for name in heard if int(name[1:]) % 4 == key]
            assert line == sorted(line)

    # Topics

    async def test_a_relay_gets_the_topics_it_names_and_no_others(self, store: Parts, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1})
        await bench.drain(job)
        await store.outbox.add([told(1), told(2, topic="order.paid"), told(3, topic="order")])
        assert ids(await store.outbox.claim("a", 10, 30.0, ["order.sent"])) == []
        assert ids(await store.outbox.claim("a", 10, 30.0, ["order.paid", "order.placed"])) == ["e1", "e2"]
        assert ids(await store.outbox.claim("b", 10, 30.0)) == [f"{job}.1.completed", "e3"]

    async def test_an_event_waits_for_none_that_its_relay_does_not_take(self, store: Parts) -> None:
        events = [told(1, "k", "order.paid"), told(2, "k"), told(3, "k", "order.paid"), told(4, "k")]
        await store.outbox.add(events)
        assert ids(await store.outbox.claim("a", 1, 30.0, ["order.paid"])) == ["e1"]
        first = await store.outbox.claim("b", 1, 30.0, ["order.placed"])
        assert ids(first) == ["e2"]
        assert ids(await store.outbox.claim("b", 10, 30.0, ["order.placed"])) == []
        await store.outbox.published(first.fence, ids(first))
        assert ids(await store.outbox.claim("b", 10, 30.0, ["order.placed"])) == ["e4"]

    async def test_any_number_that_no_relay_takes_hold_up_nothing(self, store: Parts) -> None:
        await store.outbox.add([told(number, topic="order.paid") for number in range(MANY)])
        await store.outbox.add([told(MANY)])
        assert ids(await store.outbox.claim("a", 10, 30.0, ["order.placed"])) == [f"e{MANY}"]

    async def test_any_number_that_are_held_hold_up_nothing(self, store: Parts) -> None:
        await store.outbox.add([told(number) for number in range(MANY)])
        assert len((await store.outbox.claim("a", MANY, 300.0)).events) == MANY
        await store.outbox.add([told(MANY)])
        assert ids(await store.outbox.claim("b", 10, 30.0)) == [f"e{MANY}"]

    # Forgetting

    async def test_unpublished_events_of_a_key_can_be_forgotten(self, store: Parts) -> None:
        await store.outbox.add([told(1, "k"), told(2, "k"), told(3, "other"), told(4, "k"), told(5)])
        first = await store.outbox.claim("relay", 1, 30.0)
        await store.outbox.published(first.fence, ids(first))
        held = await store.outbox.claim("relay", 1, 30.0)
        assert [await store.outbox.forget("k") for _ in range(2)] == [2, 0]
        assert await store.outbox.published(held.fence, ids(held)) == 0
        assert ids(await store.outbox.claim("relay", 10, 30.0)) == ["e3", "e5"]
        assert await store.outbox.add([told(1, "k")]) == [False]

    async def test_the_events_of_a_job_itself_are_not_forgotten(self, store: Parts, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1})
        await bench.drain(job)
        await store.outbox.add([told(1, key=job)])
        assert await store.outbox.forget(job) == 1
        assert ids(await store.outbox.claim("relay", 10, 30.0)) == [f"{job}.1.completed"]

    # Lag and retention

    async def test_the_lag_counts_what_nobody_was_told(self, store: Parts) -> None:
        assert await store.outbox.lag() == Lag()
        await store.outbox.add([told(1), told(2)])
        batch = await store.outbox.claim("relay", 1, 30.0)
        assert (await store.outbox.lag()).unpublished == 2
        await store.outbox.published(batch.fence, ids(batch))
        assert (await store.outbox.lag()).unpublished == 1

    async def test_the_lag_of_some_topics_counts_these(self, store: Parts) -> None:
        await store.outbox.add([told(1), told(2), told(3, topic="order.paid")])
        assert (await store.outbox.lag(["order.paid"])).unpublished == 1
        assert (await store.outbox.lag(["order.paid", "order.placed"])).unpublished == 3
        assert await store.outbox.lag(["order.sent"]) == Lag()

    async def test_an_idle_outbox_drops_nothing_that_is_young_or_untold(self, store: Parts) -> None:
        await store.outbox.add([told(1), told(2)])
        batch = await store.outbox.claim("relay", 1, 30.0)
        await store.outbox.published(batch.fence, ids(batch))
        assert await store.outbox.retain() == 0
        assert await store.outbox.add([told(1), told(2)]) == [False, False]

    # Inbox

    async def test_a_message_has_its_consequence_once(self, store: Parts) -> None:
        consequence = Consequence(events=(told(7),), postings=(Account("acme/p1"),))
        first = await store.inbox.consume("crawler", "m1", consequence)
        again = await store.inbox.consume("crawler", "m1", Consequence(events=(told(8),)))
        assert (first.new, again.new) == (True, False)
        assert [posted.accepted for posted in first.posted] == [True]
        assert ids(await store.outbox.claim("relay", 10, 30.0)) == ["e7"]

    async def test_each_subscription_has_an_inbox_of_its_own(self, store: Parts) -> None:
        assert (await store.inbox.consume("a", "m1", Consequence())).new
        assert (await store.inbox.consume("b", "m1", Consequence())).new
        assert not (await store.inbox.consume("a", "m1", Consequence())).new

    async def test_many_hands_consume_a_message_once(self, handles: Sequence[Parts]) -> None:
        consequence = Consequence(events=(told(1),), postings=(Account("acme/p1"),))
        answers = await asyncio.gather(
            *(handles[n % len(handles)].inbox.consume("crawler", "m1", consequence) for n in range(12))
        )
        assert sum(answer.new for answer in answers) == 1
        assert (await handles[0].outbox.lag()).unpublished == 1

    async def test_a_message_closes_an_external_stage(self, store: Parts, bench: Bench) -> None:
        job = await bench.submit(flow(work("read"), external("approve", "read")), {"read": 1})
        await bench.accept(await bench.claim("read"))
        consumed = await store.inbox.consume("approvals", "m1", Consequence(closes=((job, "approve"),)))
        await bench.look()
        assert consumed.closed == (True,)
        assert await bench.state(job) is JobState.FINISHED
        assert ids(await store.outbox.claim("relay", 10, 30.0)) == [f"{job}.1.completed"]

    async def test_a_message_submits_a_job(self, store: Parts, bench: Bench) -> None:
        submission = Submission("job-1", PLAIN.name, PLAIN.graph, (parcel("read", 2),))
        consumed = await store.inbox.consume("orders", "m1", Consequence(submissions=(submission,)))
        assert [(made.job, made.created) for made in consumed.submitted] == [("job-1", True)]
        assert not (await store.inbox.consume("orders", "m1", Consequence(submissions=(submission,)))).new
        assert (await bench.tally("job-1", "read")).total == 2

    async def test_a_refused_consequence_leaves_no_trace(self, store: Parts) -> None:
        consequence = Consequence(
            postings=(Account("acme/p1"),), closes=(("no-such-job", "approve"),), events=(told(1),)
        )
        with pytest.raises(NotFound):
            await store.inbox.consume("approvals", "m1", consequence)
        assert await store.ledger.tally("acme/p1") is None
        assert await store.outbox.lag() == Lag()
        assert (await store.inbox.consume("approvals", "m1", Consequence(events=(told(1),)))).new

    async def test_a_posting_that_the_ledger_refuses_refuses_its_message(self, store: Parts) -> None:
        counts = Settle("acme/p1", (Entry("i1"),))
        with pytest.raises(NotFound):
            await store.inbox.consume("crawler", "m1", Consequence(postings=(counts,), events=(told(1),)))
        assert await store.outbox.lag() == Lag()
        await store.inbox.consume("crawler", "m0", Consequence(postings=(Account("acme/p1"), Seal("acme/p1", 1))))
        with pytest.raises(Conflict):
            await store.inbox.consume("crawler", "m2", Consequence(postings=(Expect("acme/p1", 1, "late"),)))
        again = Consequence(postings=(Account("acme/p1"), counts))
        assert (await store.inbox.consume("crawler", "m1", again)).posted[1].crossed

    async def test_a_message_that_comes_twice_counts_once_in_the_ledger(self, store: Parts) -> None:
        postings = (Account("acme/p1"), Settle("acme/p1", (Entry("i1"), Entry("i2", ok=False))), Seal("acme/p1", 2))
        consumed = await store.inbox.consume("crawler", "m1", Consequence(postings=postings))
        await store.inbox.consume("crawler", "m1", Consequence(postings=postings))
        assert [posted.crossed for posted in consumed.posted] == [False, False, True]
        assert await store.ledger.tally("acme/p1") == AccountTally("acme/p1", 2, 1, 1, sealed=True, finished=True)
        assert ids(await store.outbox.claim("relay", 10, 30.0)) == ["acme/p1.finished"]
