"""What stands in a sink, with how its items ended: the account says which effects were left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from runtime_bench import Bench

from headrace.adapters.sqlite.sink import SqliteSink
from headrace.core.claims import Claim, Loss, Settlement, Want
from headrace.core.effects import EffectOwner, effect_key, is_left_behind, owner_of
from headrace.core.jobs import DeadFilter
from headrace.ports.sink import Change, Effect
from headrace.runtime.effects import every_effect, left_behind
from headrace.runtime.flow import Flow

TABLES = "CREATE TABLE IF NOT EXISTS receipt (item TEXT)"
RECEIPT = Change("INSERT INTO receipt (item) VALUES ('x')")


@pytest.fixture
async def sink(tmp_path: Path) -> AsyncIterator[SqliteSink]:
    sink = SqliteSink(str(tmp_path / "sink.db"), TABLES)
    yield sink
    await sink.close()


@pytest.fixture
def flow() -> Flow:
    flow = Flow("digest")

    @flow.stage(tolerate=5)
    async def pay(number: int) -> None: ...

    return flow


async def _claim(bench: Bench) -> Claim:
    return (await bench.store.claim("worker", [Want("digest", "pay", 10, 10)], 30.0)).claims[0]


def _key(claim: Claim, index: int, name: str = "") -> str:
    return effect_key(EffectOwner(claim.job, claim.stage, claim.seqs[index], name))


async def test_effects_of_dead_and_cancelled_items_are_left_behind(bench: Bench, flow: Flow, sink: SqliteSink) -> None:
    job = await bench.submit(flow, 1, 2, 3, 4)
    claim = await _claim(bench)
    for index in range(4):
        await sink.once(Effect(_key(claim, index), claim.fence), RECEIPT)
    await bench.store.settle([Settlement(claim.fence, 1, done=1, dead=(Loss(1, "card"),), end=False)])
    await bench.store.cancel_item(job, "pay", claim.seqs[2])
    await bench.store.settle([Settlement(claim.fence, 2, done=0b1000)])
    found = {line.effect.key: line async for line in every_effect(sink, bench.store, f"{job}/")}
    assert [found[_key(claim, index)].state for index in range(4)] == ["done", "dead", "cancelled", "done"]
    assert {line.effect.key async for line in left_behind(sink, bench.store)} == {_key(claim, 1), _key(claim, 2)}
    assert {(line.sink, line.guarantee) for line in found.values()} == {(sink.name, "conditional")}


async def test_a_redriven_item_that_ends_done_leaves_nothing_behind(bench: Bench, flow: Flow, sink: SqliteSink) -> None:
    job = await bench.submit(flow, 1)
    claim = await _claim(bench)
    await sink.once(Effect(_key(claim, 0), claim.fence), RECEIPT)
    await bench.store.settle([Settlement(claim.fence, 1, dead=(Loss(0, "card"),))])
    assert [line.left_behind async for line in every_effect(sink, bench.store)] == [True]
    await bench.store.redrive(DeadFilter(job=job))
    again = await _claim(bench)
    assert _key(again, 0) == _key(claim, 0), "an effect key is the same in every redrive"
    await bench.store.settle([Settlement(again.fence, 1, done=1)])
    assert [line.state async for line in every_effect(sink, bench.store)] == ["done"]


async def test_many_effects_of_one_item_and_many_items_are_all_found(
    bench: Bench, flow: Flow, sink: SqliteSink
) -> None:
    job = await bench.submit(flow, *range(450))
    claim = await _claim(bench)
    while claim.seqs:
        for index in range(claim.count):
            await sink.once(Effect(_key(claim, index, "mail"), claim.fence), RECEIPT)
        await bench.store.settle([Settlement(claim.fence, 1, done=(1 << claim.count) - 1)])
        grant = await bench.store.claim("worker", [Want("digest", "pay", 500, 500)], 30.0)
        if not grant.claims:
            break
        claim = grant.claims[0]
    found = [line async for line in every_effect(sink, bench.store, f"{job}/pay/")]
    assert len(found) == 450
    assert {line.state for line in found} == {"done"}
    assert {line.owner.name for line in found if line.owner} == {"mail"}


async def test_an_effect_that_is_no_items_has_no_state(bench: Bench, sink: SqliteSink) -> None:
    for key in ("my own key", "no-such-job/pay/7", "a/b/c"):
        await sink.once(Effect(key, 1), RECEIPT)
    assert [line.state async for line in every_effect(sink, bench.store)] == ["", "", ""]
    assert [line async for line in left_behind(sink, bench.store)] == []


@pytest.mark.parametrize(
    ("key", "owner"),
    [
        ("job/stage/12", EffectOwner("job", "stage", 12)),
        ("job/stage/12/mail", EffectOwner("job", "stage", 12, "mail")),
        ("job/stage/12/mail/to/bob", EffectOwner("job", "stage", 12, "mail/to/bob")),
        ("job/stage", None),
        ("job/stage/x", None),
        ("job/stage/-1", None),
        ("/stage/1", None),
        ("", None),
    ],
)
def test_a_key_tells_its_item(key: str, owner: EffectOwner | None) -> None:
    assert owner_of(key) == owner
    if owner is not None:
        assert effect_key(owner) == key


def test_nothing_is_left_behind_in_a_transactional_sink() -> None:
    assert not is_left_behind("transactional", "dead")
    assert is_left_behind("conditional", "dead")
    assert not is_left_behind("conditional", "held")
