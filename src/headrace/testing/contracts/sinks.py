"""Sinks: one effect per effect key, proven by reading the sink.

An adapter brings `handles`: at least two sinks on the same place, made with the tables of `TABLES`; and `query`, which
runs a statement of the application's past the sink and gives its rows. The changes are the same for every sink.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from headrace.core.effects import ANSWER_BYTES_MAX, EFFECT_KEY_CHARS_MAX
from headrace.core.errors import CallerError, ClaimLost, Conflict, TooLarge
from headrace.ports.sink import Applied, Change, Effect, Sink

Query = Callable[[str], Awaitable[Sequence[tuple[Any, ...]]]]
Charge = Callable[[str, int], Change]
TABLES = """
CREATE TABLE IF NOT EXISTS charge (item VARCHAR(50) NOT NULL, amount INTEGER NOT NULL CHECK (amount < 1000));
CREATE TABLE IF NOT EXISTS cell (name VARCHAR(50) PRIMARY KEY, value INTEGER NOT NULL);
"""
KEY = "job-1/pay/1024"
ROUNDS = 20


class SinkFixtures:
    """What the tests of a sink work with."""

    @pytest.fixture
    def sink(self, handles: Sequence[Sink]) -> Sink:
        return handles[0]

    @pytest.fixture
    def charge(self) -> Charge:
        """An append: applied twice it would show."""
        statement = "INSERT INTO charge (item, amount) VALUES (?, ?) RETURNING item, amount"
        return lambda item, amount: Change(statement, (item, amount))

    @pytest.fixture
    def write(self) -> Charge:
        """An overwrite of one row."""
        statement = (
            "INSERT INTO cell (name, value) VALUES (:name, :value) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value RETURNING value"
        )
        return lambda name, value: Change(statement, {"name": name, "value": value})


class OnceContract(SinkFixtures):
    """`once`: the first application wins."""

    async def test_the_first_application_is_made_and_answered(self, sink: Sink, query: Query, charge: Charge) -> None:
        applied = await sink.once(Effect(KEY, 5), charge("a", 10))
        assert applied == Applied(True, (("a", 10),))
        assert await charges(query) == [("a", 10)]

    async def test_a_repeat_gets_the_first_answer(self, sink: Sink, query: Query, charge: Charge) -> None:
        await sink.once(Effect(KEY, 5), charge("a", 10))
        assert await sink.once(Effect(KEY, 5), charge("a", 99)) == Applied(False, (("a", 10),))
        assert await charges(query) == [("a", 10)]

    async def test_a_repeat_under_a_newer_fence_changes_nothing(self, sink: Sink, query: Query, charge: Charge) -> None:
        await sink.once(Effect(KEY, 5), charge("a", 10))
        assert await sink.once(Effect(KEY, 6), charge("a", 10)) == Applied(False, (("a", 10),))
        assert await charges(query) == [("a", 10)]

    async def test_a_repeat_under_an_older_fence_changes_nothing(
        self, sink: Sink, query: Query, charge: Charge
    ) -> None:
        await sink.once(Effect(KEY, 5), charge("a", 10))
        assert await sink.once(Effect(KEY, 4), charge("a", 10)) == Applied(False, (("a", 10),))
        assert await charges(query) == [("a", 10)]

    async def test_other_keys_are_other_effects(self, sink: Sink, query: Query, charge: Charge) -> None:
        await sink.once(Effect(KEY, 5), charge("a", 10))
        assert (await sink.once(Effect(f"{KEY}/tip", 5), charge("a", 1))).first
        assert await charges(query) == [("a", 1), ("a", 10)]

    async def test_a_change_that_returns_nothing_has_an_empty_answer(self, sink: Sink, query: Query) -> None:
        change = Change("INSERT INTO charge (item, amount) VALUES ('a', 1)")
        assert await sink.once(Effect(KEY, 5), change) == Applied(True, ())
        assert await sink.once(Effect(KEY, 5), change) == Applied(False, ())

    async def test_a_change_that_fails_leaves_neither_key_nor_row(
        self, sink: Sink, query: Query, charge: Charge
    ) -> None:
        with pytest.raises(CallerError, match=KEY):
            await sink.once(Effect(KEY, 5), charge("a", 5_000))
        assert await charges(query) == []
        assert await sink.effects("", "", 10) == []
        assert (await sink.once(Effect(KEY, 5), charge("a", 5))).first

    async def test_one_that_fails_does_not_disturb_the_others(self, sink: Sink, query: Query, charge: Charge) -> None:
        calls = [sink.once(Effect(f"job-1/pay/{n}", 5), charge(f"{n}", 5_000 if n == 3 else n)) for n in range(8)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [n for n, answer in enumerate(answers) if isinstance(answer, BaseException)] == [3]
        assert len(await charges(query)) == 7

    async def test_a_percent_sign_is_only_that(self, sink: Sink, query: Query) -> None:
        change = Change("INSERT INTO charge (item, amount) VALUES ('5% of what?', 17 % :by)", {"by": 10})
        await sink.once(Effect(KEY, 5), change)
        assert await charges(query) == [("5% of what?", 7)]

    async def test_a_value_that_is_missing_is_refused(self, sink: Sink, query: Query) -> None:
        change = Change("INSERT INTO charge (item, amount) VALUES (:item, :amount)", {"item": "a"})
        with pytest.raises(CallerError, match="amount"):
            await sink.once(Effect(KEY, 5), change)
        assert await sink.effects("", "", 10) == []

    @pytest.mark.parametrize(
        "verb", ["COMMIT", "ROLLBACK", "/* so */ COMMIT", "DELETE FROM charge; COMMIT", "nonsense"]
    )
    async def test_a_change_cannot_end_its_transaction(self, sink: Sink, query: Query, verb: str) -> None:
        with pytest.raises(CallerError):
            await sink.once(Effect(KEY, 5), Change(verb))
        assert await sink.effects("", "", 10) == []

    async def test_a_change_cannot_touch_the_keys(self, sink: Sink, charge: Charge) -> None:
        with pytest.raises(CallerError, match="belongs to headrace"):
            await sink.once(Effect(KEY, 5), Change("DELETE FROM headrace_effect"))

    async def test_an_answer_too_large_to_keep_is_refused(self, sink: Sink, query: Query) -> None:
        change = Change("INSERT INTO charge (item, amount) VALUES ('a', 1) RETURNING ?", ("x" * ANSWER_BYTES_MAX,))
        with pytest.raises(TooLarge, match="ANSWER_BYTES_MAX"):
            await sink.once(Effect(KEY, 5), change)
        assert await charges(query) == []

    @pytest.mark.parametrize("key", ["", "a\0b", "k" * (EFFECT_KEY_CHARS_MAX + 1)])
    async def test_a_key_that_cannot_be_kept_is_refused(self, sink: Sink, charge: Charge, key: str) -> None:
        with pytest.raises(CallerError):
            await sink.once(Effect(key, 5), charge("a", 1))


class PutContract(SinkFixtures):
    """`put`: the highest fence wins."""

    async def test_a_higher_fence_overwrites(self, sink: Sink, query: Query, write: Charge) -> None:
        assert await sink.put(Effect(KEY, 5), write("a", 1)) == Applied(True, ((1,),))
        assert await sink.put(Effect(KEY, 6), write("a", 2)) == Applied(True, ((2,),))
        assert await cells(query) == [("a", 2)]

    async def test_a_lower_fence_changes_nothing(self, sink: Sink, query: Query, write: Charge) -> None:
        await sink.put(Effect(KEY, 6), write("a", 2))
        assert await sink.put(Effect(KEY, 5), write("a", 1)) == Applied(False, ((2,),))
        assert await cells(query) == [("a", 2)]

    async def test_the_same_holder_may_correct_itself(self, sink: Sink, query: Query, write: Charge) -> None:
        await sink.put(Effect(KEY, 5), write("a", 1))
        assert (await sink.put(Effect(KEY, 5), write("a", 3))).first
        assert await cells(query) == [("a", 3)]

    async def test_the_answer_is_that_of_the_change_that_stands(self, sink: Sink, write: Charge) -> None:
        await sink.put(Effect(KEY, 5), write("a", 1))
        await sink.put(Effect(KEY, 6), Change("UPDATE cell SET value = 2"))
        assert await sink.put(Effect(KEY, 5), write("a", 1)) == Applied(False, ())

    async def test_a_key_is_never_both(self, sink: Sink, query: Query, write: Charge) -> None:
        await sink.once(Effect(KEY, 5), write("a", 1))
        with pytest.raises(Conflict):
            await sink.put(Effect(KEY, 6), write("a", 2))
        await sink.put(Effect("job-1/pay/7", 5), write("b", 1))
        with pytest.raises(Conflict):
            await sink.once(Effect("job-1/pay/7", 6), write("b", 2))
        assert await cells(query) == [("a", 1), ("b", 1)]

    async def test_a_put_that_fails_leaves_the_one_before(
        self, sink: Sink, query: Query, write: Charge, charge: Charge
    ) -> None:
        await sink.put(Effect(KEY, 5), write("a", 1))
        with pytest.raises(CallerError):
            await sink.put(Effect(KEY, 7), charge("a", 5_000))
        assert (await sink.put(Effect(KEY, 6), write("a", 2))).first


class RevokeContract(SinkFixtures):
    """A late holder cannot even make a first write."""

    async def test_a_late_holder_cannot_make_a_first_write(
        self, sink: Sink, query: Query, charge: Charge, write: Charge
    ) -> None:
        await sink.revoke([5])
        with pytest.raises(ClaimLost):
            await sink.once(Effect(KEY, 5), charge("a", 10))
        with pytest.raises(ClaimLost):
            await sink.put(Effect("job-1/pay/7", 5), write("a", 10))
        assert (await charges(query), await cells(query)) == ([], [])
        assert (await sink.once(Effect(KEY, 6), charge("a", 10))).first

    async def test_a_late_holder_is_refused_on_every_handle(self, handles: Sequence[Sink], charge: Charge) -> None:
        await handles[0].revoke([4, 5])
        with pytest.raises(ClaimLost):
            await handles[1].once(Effect(KEY, 5), charge("a", 10))

    async def test_other_fences_go_on(self, sink: Sink, query: Query, charge: Charge) -> None:
        await sink.revoke([4, 6])
        assert (await sink.once(Effect(KEY, 5), charge("a", 10))).first

    async def test_a_fence_may_be_revoked_again(self, sink: Sink, charge: Charge) -> None:
        await sink.revoke([])
        await sink.revoke([5, 5])
        await sink.revoke([5, 6])
        with pytest.raises(ClaimLost):
            await sink.once(Effect(KEY, 6), charge("a", 10))

    async def test_nothing_is_committed_after_its_revocation_returned(
        self, handles: Sequence[Sink], query: Query, charge: Charge
    ) -> None:
        """Whoever wins the race, what the revoker sees when its call has returned is what stays."""
        for fence in range(1, ROUNDS + 1):
            writes = [
                asyncio.ensure_future(handles[0].once(Effect(f"job-1/pay/{fence}/{n}", fence), charge(f"{fence}", n)))
                for n in range(4)
            ]
            for _ in range(fence % 5):
                await asyncio.sleep(0)
            await handles[1].revoke([fence])
            seen = await charges(query)
            ends = await asyncio.gather(*writes, return_exceptions=True)
            assert all(isinstance(end, ClaimLost | Applied) for end in ends)
            assert await charges(query) == seen


class EffectsContract(SinkFixtures):
    """Many hands at once, and what people see."""

    async def test_many_at_once_apply_a_key_once(self, handles: Sequence[Sink], query: Query, charge: Charge) -> None:
        calls = [handles[n % len(handles)].once(Effect(KEY, n), charge("a", n)) for n in range(1, 31)]
        answers = await asyncio.gather(*calls)
        assert sum(answer.first for answer in answers) == 1
        assert len({answer.answer for answer in answers}) == 1
        assert len(await charges(query)) == 1

    async def test_many_at_once_leave_the_highest_fence(
        self, handles: Sequence[Sink], query: Query, write: Charge
    ) -> None:
        fences = [(n * 7) % 31 for n in range(1, 31)]
        await asyncio.gather(
            *(handles[n % len(handles)].put(Effect(KEY, fence), write("a", fence)) for n, fence in enumerate(fences))
        )
        assert await cells(query) == [("a", max(fences))]
        assert [view.fence for view in await handles[0].effects(KEY, "", 2)] == [max(fences)]

    async def test_refusals_are_counted(self, sink: Sink, charge: Charge, write: Charge) -> None:
        await sink.once(Effect("j/a/1", 5), charge("a", 1))
        await sink.once(Effect("j/a/1", 6), charge("a", 1))
        await sink.revoke([5])
        with pytest.raises(ClaimLost):
            await sink.once(Effect("j/a/1", 5), charge("a", 1))
        await sink.put(Effect("j/b/1", 8), write("a", 1))
        await sink.put(Effect("j/b/1", 7), write("a", 1))
        views = await sink.effects("j/", "", 10)
        assert [(view.key, view.operation, view.fence, view.refused) for view in views] == [
            ("j/a/1", "once", 5, 2),
            ("j/b/1", "put", 8, 1),
        ]
        assert all(view.applied_at > 1_000_000_000 for view in views)

    async def test_effects_are_listed_by_prefix_in_pages(self, sink: Sink, charge: Charge) -> None:
        keys = ["job-1/a/1", "job-1/a/2", "job-1/ä/3", "job-1/Z/1", "job-10/a/1", "job-2/a/1"]
        for key in keys:
            await sink.once(Effect(key, 1), charge("a", 1))
        found: list[str] = []
        while page := await sink.effects("job-1/", found[-1] if found else "", 2):
            assert len(page) <= 2
            found += [view.key for view in page]
        assert found == sorted(key for key in keys if key.startswith("job-1/"))

    async def test_a_closed_sink_opens_again(self, handles: Sequence[Sink], charge: Charge) -> None:
        await handles[1].once(Effect(KEY, 5), charge("a", 10))
        await handles[1].close()
        await handles[1].close()
        assert not (await handles[1].once(Effect(KEY, 5), charge("a", 10))).first

    def test_it_says_what_it_is(self, sink: Sink) -> None:
        assert sink.guarantee == "conditional"
        assert "://" in sink.name
        assert "secret" not in sink.name


async def charges(query: Query) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await query("SELECT item, amount FROM charge ORDER BY item, amount")]


async def cells(query: Query) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await query("SELECT name, value FROM cell ORDER BY name")]


GUARDED_BY: Mapping[str, Callable[..., Awaitable[None]]] = {
    "no fence check": RevokeContract.test_a_late_holder_cannot_make_a_first_write,
    "a revocation that is not kept": RevokeContract.test_a_late_holder_cannot_make_a_first_write,
    "a retry accepted because its fence is newer": OnceContract.test_a_repeat_under_a_newer_fence_changes_nothing,
    "a put accepted under a lower fence": PutContract.test_a_lower_fence_changes_nothing,
    "an answer that is not kept": OnceContract.test_a_repeat_gets_the_first_answer,
}
"""Guards a sink may be without, and the test that then turns red."""
