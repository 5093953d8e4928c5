"""Inspecting: what people are shown is one snapshot, in a stable order, page by page."""

from __future__ import annotations

import pytest

from headrace.core.errors import NotFound
from headrace.core.jobs import DeadFilter, JobFilter
from headrace.core.recount import explain_open
from headrace.core.tally import JobState
from headrace.testing.contracts.bench import Bench, again, barrier, died, external, flow, parcel, work

PLAIN = flow(work("read"))


class InspectingContract:
    async def test_an_unknown_job_is_an_error(self, bench: Bench) -> None:
        with pytest.raises(NotFound):
            await bench.store.job("nobody")
        with pytest.raises(NotFound):
            await bench.store.audit("nobody")

    async def test_a_job_shows_what_was_submitted(self, bench: Bench) -> None:
        declared = flow(work("a", "b"), work("b"), barrier("end", "b"), name="digest")
        job = await bench.submit(declared, {"a": 2}, tenant="acme", key="k", digest="d", priority=5)
        view = await bench.store.job(job)
        assert (view.id, view.tenant, view.flow, view.key, view.priority) == (job, "acme", "digest", "k", 5)
        assert (view.state, view.generation, view.paused, view.ended_at) == (JobState.OPEN, 1, False, None)
        assert view.graph == declared.graph
        assert list(view.stages) == ["a", "b", "end"]

    async def test_an_ended_job_shows_when_it_ended(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 1})
        await bench.drain(job)
        view = await bench.store.job(job)
        assert view.ended_at is not None
        assert view.ended_at >= view.submitted_at

    async def test_jobs_are_listed_newest_first_and_by_the_page(self, bench: Bench) -> None:
        jobs = [await bench.submit(PLAIN, {"read": 1}) for _ in range(5)]
        first = await bench.store.jobs(JobFilter(limit=3))
        second = await bench.store.jobs(JobFilter(limit=3, before=first[-1].id))
        assert [view.id for view in (*first, *second)] == jobs[::-1]
        assert first[0].stages["read"].waiting == 1

    async def test_jobs_are_filtered_by_tenant_flow_and_state(self, bench: Bench) -> None:
        mine = await bench.submit(PLAIN, {"read": 1}, tenant="a")
        other_flow = await bench.submit(flow(work("read"), name="other"), {"read": 1}, tenant="a")
        other_tenant = await bench.submit(PLAIN, {}, tenant="b")
        assert [view.id for view in await bench.store.jobs(JobFilter(tenant="a", flow="flow"))] == [mine]
        assert [view.id for view in await bench.store.jobs(JobFilter(flow="other"))] == [other_flow]
        assert [view.id for view in await bench.store.jobs(JobFilter(state=JobState.FINISHED))] == [other_tenant]

    async def test_each_item_is_listed_once_in_its_newest_state(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, [parcel("read", 6, keys=["a", "b", "c", "d", "e", "f"])])
        claim = await bench.claim("read", room=5)
        await bench.accept(claim, [0], dead=(died(1),), again=(again(2, 0.0, 2),), end=False)
        items = await bench.store.items(job, "read", -1, 100)
        assert [item.key for item in items] == ["a", "b", "c", "d", "e", "f"]
        assert [item.seq for item in items] == sorted(item.seq for item in items)
        assert [item.state for item in items] == ["done", "dead", "waiting", "held", "held", "waiting"]
        assert [item.retries for item in items] == [0, 0, 2, 0, 0, 0]
        assert [item.payload for item in items] == [f"read-{index}".encode() for index in range(6)]

    async def test_an_item_that_waits_for_its_time_says_when_that_is(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("read"), external("sign", deadline_s=60.0)), {"read": 4})
        await bench.accept(await bench.claim("read", room=3), [0], again=(again(1, 60.0, 1), again(2, 0.0, 1)))
        (view,) = await bench.store.jobs(JobFilter())
        retried, *others = sorted(await bench.store.items(job, "read", -1, 100), key=lambda item: item.due_at is None)
        assert (retried.state, retried.retries) == ("waiting", 1)
        assert retried.due_at is not None
        assert 60.0 <= retried.due_at - view.submitted_at < 90.0
        assert sorted(item.state for item in others) == ["done", "waiting", "waiting"]
        assert [item.due_at for item in others] == [None, None, None]
        assert [item.due_at for item in await bench.store.items(job, "sign", -1, 100)] == [None]

    async def test_items_are_paged_by_seq(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, [parcel("read", 3), parcel("read", 4)])
        first = await bench.store.items(job, "read", -1, 5)
        second = await bench.store.items(job, "read", first[-1].seq, 5)
        assert (len(first), len(second)) == (5, 2)
        assert len({item.seq for item in (*first, *second)}) == 7

    async def test_a_cancelled_item_is_told_from_a_dead_one(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        claim = await bench.claim("read", room=2)
        await bench.accept(claim, [0], dead=(died(1),))
        await bench.cancel(job)
        assert [item.state for item in await bench.store.items(job, "read", -1, 10)] == ["done", "dead", "cancelled"]

    async def test_a_redriven_item_is_listed_once_with_its_newest_end(self, bench: Bench) -> None:
        job = await bench.submit(PLAIN, {"read": 2})
        await bench.accept(await bench.claim("read"), [0], dead=(died(1),))
        await bench.redrive(job=job)
        assert [item.state for item in await bench.store.items(job, "read", -1, 10)] == ["done", "waiting"]
        await bench.drain(job)
        assert [item.state for item in await bench.store.items(job, "read", -1, 10)] == ["done", "done"]

    async def test_dead_letters_are_found_by_what_is_known_of_them(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a"), work("b")), {"a": 2, "b": 1}, tenant="acme")
        losses = (died(0, "timeout", error="TimeoutError: 3 s"), died(1, "broken", rule="shape"))
        claim = await bench.claim("a")
        seqs = claim.seqs
        await bench.accept(claim, [], dead=losses)
        await bench.accept(await bench.claim("b"), [], dead=(died(0, "timeout", error="TimeoutError: 9 s"),))
        found = {
            "tenant": await bench.store.dead(DeadFilter(tenant="acme")),
            "stage": await bench.store.dead(DeadFilter(job=job, stage="a")),
            "reason": await bench.store.dead(DeadFilter(reason="timeout")),
            "rule": await bench.store.dead(DeadFilter(rule="shape")),
            "flow": await bench.store.dead(DeadFilter(flow="flow")),
            "nobody": await bench.store.dead(DeadFilter(tenant="nobody")),
            "limit": await bench.store.dead(DeadFilter(limit=1)),
            "seq": await bench.store.dead(DeadFilter(job=job, stage="a", seq=seqs[1])),
        }
        counts = {name: len(letters) for name, letters in found.items()}
        assert counts == {"tenant": 3, "stage": 2, "reason": 2, "rule": 1, "flow": 3, "nobody": 0, "limit": 1, "seq": 1}

    async def test_dead_letters_with_one_fingerprint_are_found_together(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 3})
        losses = (died(0, "x", error="KeyError: 'a'"), died(1, "x", error="KeyError: 'a'"), died(2, "y", error="other"))
        await bench.accept(await bench.claim("read"), [], dead=losses)
        letters = {letter.payload: letter for letter in await bench.store.dead(DeadFilter())}
        same = letters[b"read-0"].fingerprint
        assert same
        assert same == letters[b"read-1"].fingerprint
        assert same != letters[b"read-2"].fingerprint
        assert len(await bench.store.dead(DeadFilter(fingerprint=same))) == 2

    async def test_dead_letters_come_newest_first(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 2})
        await bench.accept(await bench.claim("read", room=1), [], dead=(died(0),))
        await bench.passage.past(0.05)
        await bench.accept(await bench.claim("read", room=1), [], dead=(died(0),))
        assert [letter.payload for letter in await bench.store.dead(DeadFilter())] == [b"read-1", b"read-0"]

    async def test_a_job_is_found_by_the_beginning_or_the_end_of_its_id(self, bench: Bench) -> None:
        jobs = [await bench.submit(PLAIN, {"read": 1}) for _ in range(2)]
        ends = [job[-1:] for job in jobs]

        async def found(part: str) -> list[str]:
            return [view.id for view in await bench.store.jobs(JobFilter(part=part))]

        assert await found(jobs[0]) == [jobs[0]]
        assert await found(jobs[0][:-1]) == [job for job in jobs[::-1] if job.startswith(jobs[0][:-1])]
        assert await found(ends[1]) == [job for job in jobs[::-1] if job.endswith(ends[1])]
        assert await found("%") == await found("no such") == []

    async def test_live_workers_are_listed_with_what_they_hold(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 4})
        claims = [await bench.claim("read", room=1, worker="worker-1") for _ in range(2)]
        bench.renew("worker-1", *claims)
        bench.renew("worker-2")
        workers = {view.id: view.claims for view in await bench.store.workers()}
        assert workers == {"worker-1": 2, "worker-2": 0}

    async def test_a_worker_that_says_goodbye_is_no_longer_listed(self, bench: Bench) -> None:
        await bench.submit(PLAIN, {"read": 1})
        claim = await bench.claim("read")
        bench.renew("worker-1", claim)
        bench.renew("worker-2")
        assert bench.store.renew("worker-1", [claim.fence], 0.0).kept == frozenset()
        assert [view.id for view in await bench.store.workers()] == ["worker-2"]
        await bench.accept(claim, [0])

    async def test_a_worker_that_renews_no_more_is_no_longer_listed(self, bench: Bench) -> None:
        bench.renew("worker-1", hold_s=bench.passage.brief_s)
        (alive,) = await bench.store.workers()
        assert 0 <= alive.seen_s < bench.passage.brief_s
        await bench.past_brief()
        assert list(await bench.store.workers()) == []

    async def test_what_is_open_can_be_told_in_words(self, bench: Bench) -> None:
        job = await bench.submit(flow(work("a", "b"), work("b")), {"a": 3})
        await bench.claim("a", room=1)
        first, second = explain_open(await bench.audit(job))
        assert first == "a: 0 of 3 ended; 2 waiting; 1 held by workers"
        assert second == "b: 0 of 0 ended; not sealed: it waits for a to close"
