"""A flow says what is wrong with it, in words, where it is declared."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.errors import InvalidFlow, UnknownStage
from headrace.core.graph import Kind
from headrace.core.tally import Tally
from headrace.runtime.context import Context, Out
from headrace.runtime.flow import BATCH, Flow


def test_stages_are_functions_with_or_without_options() -> None:
    flow = Flow("digest")

    @flow.stage(feeds="read")
    async def find(query: str, out: Out) -> None: ...

    @flow.stage
    def read(pages: list[int], context: Context) -> None: ...

    @flow.stage(after=["read"], name="report")
    async def tell(done: Tally) -> None: ...

    flow.external("approve", after="report", deadline_s=5)
    assert [spec.name for spec in flow.graph.stages] == ["find", "read", "report", "approve"]
    assert [spec.kind for spec in flow.graph.stages] == [Kind.WORK, Kind.WORK, Kind.BARRIER, Kind.EXTERNAL]
    assert list(flow.stages) == ["find", "read", "report"]
    assert flow.stages["read"].batch == BATCH
    assert flow.stages["read"].shape.takes_list
    assert not flow.stages["read"].shape.awaits


def test_options_beside_a_function_are_kept() -> None:
    async def read(page: str) -> None: ...

    flow = Flow("digest")
    assert flow.stage(read, name="fetch", concurrency=3) is read
    assert {name: stage.concurrency for name, stage in flow.stages.items()} == {"fetch": 3}


def test_a_declared_function_stays_what_it_is() -> None:
    flow = Flow("digest")

    @flow.stage(concurrency=3)
    def double(number: int) -> int:
        return 2 * number

    assert double(4) == 8


def test_the_graph_is_built_once_and_again_after_a_change() -> None:
    flow = Flow("digest")

    @flow.stage
    async def one(number: int) -> None: ...

    first = flow.graph
    assert flow.graph is first
    flow.external("two", after="one")
    assert len(flow.graph.stages) == 2


def test_an_arrow_to_nowhere_is_refused() -> None:
    flow = Flow("digest")

    @flow.stage(feeds="nowhere")
    async def one(number: int) -> None: ...

    with pytest.raises(UnknownStage, match="nowhere"):
        _ = flow.graph


def test_a_cycle_is_refused_with_its_path() -> None:
    flow = Flow("digest")

    @flow.stage(feeds="two")
    async def one(number: int) -> None: ...

    @flow.stage(feeds="one")
    async def two(number: int) -> None: ...

    with pytest.raises(InvalidFlow, match="circle"):
        _ = flow.graph


def test_two_stages_of_one_name_are_refused() -> None:
    flow = Flow("digest")
    flow.external("one")
    with pytest.raises(InvalidFlow, match="two stages are called 'one'"):
        flow.external("one")


async def nothing() -> None: ...


async def surplus(item: int, other: int) -> None: ...


async def positional(item: int, out: Out, /) -> None: ...


async def twice(item: int, out: Out, more: Out) -> None: ...


async def tally(item: Tally) -> None: ...


async def stream(item: int) -> Any:
    yield item


async def single(item: int) -> None: ...


async def unreadable(item: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("handler", "options", "words"),
    [
        (nothing, {}, "takes no payload"),
        (surplus, {}, "'other'"),
        (positional, {}, "positional only"),
        (twice, {}, "Out twice"),
        (tally, {}, "only a barrier"),
        (stream, {}, "does not yield"),
        (unreadable, {}, "cannot be read"),
        (single, {"after": "x"}, "gets their tally"),
        (single, {"batch": 5}, "takes a list"),
        (single, {"concurrency": 0}, "concurrency=0"),
        (single, {"timeout_s": -1}, "timeout_s=-1"),
        (single, {"depth_max": 3}, "feeds itself"),
        (single, {"always": True}, "always is for barriers"),
        (single, {"retry": 5}, "backoff|not a policy"),
        (single, {"tolerate": "many"}, "tolerate"),
        (single, {"speed": 5}, "no option 'speed'"),
        (nothing, {"after": "x", "unique": True}, "unique means nothing"),
        (nothing, {"after": "x", "generations": "last"}, "generations"),
    ],
)
def test_what_cannot_work_is_refused_with_words(handler: Any, options: Any, words: str) -> None:
    with pytest.raises(InvalidFlow, match=words):
        Flow("digest").stage(**options)(handler)


def test_an_object_that_is_not_a_function_is_refused() -> None:
    with pytest.raises(InvalidFlow, match="must be a function"):
        Flow("digest").stage(print)


@pytest.mark.parametrize("name", ["", "a/b", "x" * 101])
def test_a_flow_name_must_fit_into_a_key(name: str) -> None:
    with pytest.raises(InvalidFlow, match="flow name"):
        Flow(name)
