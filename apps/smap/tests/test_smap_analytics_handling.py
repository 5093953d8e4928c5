"""Batches of messages are handled: every post ends once, whatever is wrong with it, and is told of if it went well."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from smap_analytics_desk import Desk, good, open_desk, payload, topics
from smap_posts import BAD_BLOBS, PROJECT, deadly, delivery, message, post

from headrace.errors import CallerError, Conflict, Unreachable
from headrace.ports import Event
from headrace_smap.analytics.dead_letters import letter_id
from headrace_smap.analytics.modules import pipeline
from headrace_smap.analytics.service import rerun
from headrace_smap.count.accountant import Accountant
from headrace_smap.envelope import ANALYSIS_FINISHED, JOB_COMPLETED, derived_id
from headrace_smap.settings import SmapSettings

OTHER_BLOBS = {"large": b" " * 300_000 + post(), "huge": b" " * 2_000_000, "marked": b"\xef\xbb\xbf" + post()}


@pytest.fixture(params=["embedded", "real"])
async def anywhere(request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    settings: SmapSettings = request.getfixturevalue(request.param)
    limited = replace(settings, environment={**settings.environment, "SMAP_POST_BYTES_MAX": "1000000"})
    async with open_desk(limited) as desk:
        yield desk


@pytest.fixture
async def desk(embedded: SmapSettings) -> AsyncIterator[Desk]:
    async with open_desk(embedded) as opened:
        yield opened


async def test_each_kind_of_bad_blob_is_an_error_that_counts_and_has_its_letter(anywhere: Desk) -> None:
    await anywhere.store(**BAD_BLOBS, **OTHER_BLOBS, **good(2))
    anywhere.paths += ["raw/missing.json", "../secret.json", "raw/\x07.json"]
    await anywhere.seal()
    await anywhere.handler().handle(anywhere.deliveries())
    expected = {f"raw/{rule}.json": rule for rule in BAD_BLOBS}
    expected |= {"raw/huge.json": "blob_too_large", "raw/missing.json": "blob_missing"}
    expected |= {"../secret.json": "blob_path", "raw/\x07.json": "blob_path"}
    assert await anywhere.rules() == expected
    assert await anywhere.progress() == ("DONE", 15, 15, 11)
    assert sorted(await anywhere.results()) == [f"raw/{name}.json" for name in ("good0", "good1", "large", "marked")]
    assert topics(await anywhere.told()) == {ANALYSIS_FINISHED: 4, JOB_COMPLETED: 1}
    letters = {letter.headers["path"]: letter for letter in await anywhere.letters()}
    assert len(letters) == 11
    for path, rule in expected.items():
        letter = letters[path.replace("\x07", "\\x07")]
        assert letter.body == message(path)
        assert (letter.event_id, letter.headers["rule"]) == (letter_id(letter.body), rule)
        assert (letter.headers["project"], letter.headers["attempt"]) == (PROJECT, "1")
        assert letter.headers["reason"]


async def test_duplicates_and_reordering_change_nothing(desk: Desk) -> None:
    await desk.store(**good(30), bad=b"{")
    await desk.seal()
    told = desk.paths * 3
    random.Random(7).shuffle(told)
    handler = desk.handler()
    for start in range(0, len(told), 8):
        await handler.handle(desk.deliveries(told[start : start + 8]))
    assert await desk.progress() == ("DONE", 31, 31, 1)
    assert topics(await desk.told()) == {ANALYSIS_FINISHED: 30, JOB_COMPLETED: 1}
    assert len(await desk.letters()) == 1


async def test_a_result_is_told_under_an_id_that_follows_from_the_post(desk: Desk) -> None:
    await desk.store(one=post())
    await desk.handler().handle(desk.deliveries())
    (event,) = await desk.told()
    assert event.event_id == derived_id(ANALYSIS_FINISHED, PROJECT, "raw/one.json")
    told = payload(event)
    assert told.pop("analyzed_at").endswith("Z")
    assert told == {
        "project_id": PROJECT,
        "minio_path": "raw/one.json",
        "post_id": "vid_1",
        "platform": "TIKTOK",
        "sentiment": "neutral",
        "risk": "LOW",
    }


async def test_the_trace_of_a_message_goes_on_in_its_result_and_in_its_letter(desk: Desk) -> None:
    await desk.store(fine=post(), bad=b"{")
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    traced = [replace(each, event=replace(each.event, headers=trace)) for each in desk.deliveries()]
    await desk.handler().handle(traced)
    (result,), (letter,) = await desk.told(), await desk.letters()
    assert result.headers == trace
    assert letter.headers["traceparent"] == trace["traceparent"]


async def test_posts_of_an_unknown_project_are_kept_and_counted_when_it_appears(desk: Desk) -> None:
    await desk.store(**good(2))
    await desk.handler().handle(desk.deliveries())
    assert len(await desk.results()) == 2
    assert await desk.parts.ledger.tally(PROJECT) is None
    await desk.seal()
    await desk.handler().handle(desk.deliveries())
    assert await desk.progress() == ("DONE", 2, 2, 0)


async def test_posts_of_a_cancelled_project_are_settled_without_a_look(desk: Desk) -> None:
    desk.paths += ["raw/never-uploaded.json", "../secret.json"]
    await Accountant(desk.parts).open(PROJECT)
    await Accountant(desk.parts).expect(PROJECT, 2)
    assert await Accountant(desk.parts).cancel(PROJECT)
    await desk.handler().handle(desk.deliveries())
    assert await desk.items() == {"raw/never-uploaded.json": (True, ""), "../secret.json": (True, "")}
    assert topics(await desk.told()) == {}


async def test_posts_of_a_deleted_project_leave_nothing_behind(desk: Desk) -> None:
    await desk.store(**good(2))
    await desk.seal()
    await Accountant(desk.parts).forget(PROJECT)
    await desk.handler().handle(desk.deliveries())
    assert (await desk.items(), await desk.results(), await desk.told()) == ({}, [], [])


async def test_a_stray_message_has_a_letter_and_holds_up_nobody(desk: Desk) -> None:
    await desk.store(**good(1))
    await desk.seal()
    await desk.handler().handle([delivery(b"\xff not ours"), *desk.deliveries()])
    (letter,) = await desk.letters()
    assert (letter.body, letter.headers["rule"]) == (b"\xff not ours", "event_json")
    assert await desk.progress() == ("DONE", 1, 1, 0)


async def test_a_module_that_fails_on_one_post_fails_no_other(desk: Desk) -> None:
    await desk.store(bad=post(text="fail"), **good(3))
    await desk.seal()
    await desk.handler(deadly()).handle(desk.deliveries())
    assert await desk.rules() == {"raw/bad.json": "module_failed"}
    (letter,) = await desk.letters()
    assert letter.headers["exception"] == "ZeroDivisionError"


class Picky:
    """A database that refuses one post's result."""

    def __init__(self, database: object) -> None:
        self._database = database

    def __getattr__(self, name: str) -> object:
        return getattr(self._database, name)

    async def transact(self, *steps: tuple[str, dict[str, object]]) -> object:
        for name, values in steps:
            if name == "upsert_post_analytics" and "vid_2" in str(values["rows"]):
                raise CallerError("out of range")
        return await self._database.transact(*steps)  # type: ignore[attr-defined]


async def test_a_result_that_the_database_refuses_is_an_error_and_the_others_are_kept(desk: Desk) -> None:
    await desk.store(**good(4))
    await desk.seal()
    await desk.handler(database=Picky(desk.parts.database)).handle(desk.deliveries())
    assert await desk.rules() == {"raw/good2.json": "not_storable"}
    assert await desk.progress() == ("DONE", 4, 4, 1)
    assert topics(await desk.told()) == {ANALYSIS_FINISHED: 3, JOB_COMPLETED: 1}
    assert len(await desk.letters()) == 1


class InTheWay:
    """A ledger in which somebody else's key stands where one project should be."""

    def __init__(self, ledger: object) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    async def settle(self, project: str, ends: object) -> object:
        if project == "taken":
            raise Conflict("WRONGTYPE")
        return await self._ledger.settle(project, ends)  # type: ignore[attr-defined]


async def test_a_project_that_the_ledger_refuses_holds_up_no_other_and_makes_no_letters(desk: Desk) -> None:
    await desk.store(**good(3))
    await desk.seal()
    await Accountant(desk.parts).open("taken")
    await Accountant(desk.parts).seal("taken", 1)
    told = [delivery(message("raw/good0.json", "taken"), 9), *desk.deliveries()]
    await desk.handler(ledger=InTheWay(desk.parts.ledger)).handle(told)
    assert await desk.progress() == ("DONE", 3, 3, 0)
    assert topics(await desk.told()) == {ANALYSIS_FINISHED: 4, JOB_COMPLETED: 1}
    assert await desk.letters() == []
    # The truth has it, so it is counted when the way is free.
    assert (await desk.parts.database.rows("truth_items", project="taken", after="", room=9)) == [
        ("raw/good0.json", True)
    ]


class Unwell:
    """A database that does not take settlements for a while, beside a bus that counts what it is given."""

    def __init__(self, desk: Desk, failures: int) -> None:
        self._database, self._bus, self._left = desk.parts.database, desk.parts.bus, failures
        self.published = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._database, name)

    async def transact(self, *steps: tuple[str, dict[str, object]]) -> object:
        self._left -= 1
        if self._left >= 0:
            raise Unreachable("not now")
        return await self._database.transact(*steps)

    async def publish(self, events: list[Event]) -> list[bool]:
        self.published += len(events)
        return await self._bus.publish(events)


async def test_a_letter_is_written_once_however_often_its_batch_is_tried(desk: Desk) -> None:
    await desk.store(bad=b"{")
    unwell = Unwell(desk, 5)
    handler = desk.handler(database=unwell, bus=unwell)
    for _ in range(5):
        with pytest.raises(Unreachable):
            await handler.handle(desk.deliveries())
    await handler.handle(desk.deliveries())
    assert unwell.published == 1
    # Told again after its end it is another matter: somebody may have read the first letter and waits for the next.
    await handler.handle(desk.deliveries())
    assert unwell.published == 2


async def test_a_failed_post_that_is_told_again_and_goes_well_lowers_the_errors(desk: Desk) -> None:
    await desk.store(**good(1), mended=b"{")
    await desk.seal()
    await desk.handler().handle(desk.deliveries())
    assert await desk.progress() == ("DONE", 2, 2, 1)
    await desk.parts.blobs.put("raw/mended.json", post())
    await desk.handler().handle(desk.deliveries(["raw/mended.json"]))
    assert await desk.progress() == ("DONE", 2, 2, 0)
    assert topics(await desk.told())[JOB_COMPLETED] == 1


async def test_a_rerun_rewrites_results_of_other_versions_and_counts_nothing(embedded: SmapSettings) -> None:
    async with open_desk(embedded) as desk:
        await desk.store(**good(3), gone=post())
        await desk.seal()
        await desk.handler().handle(desk.deliveries())
        before, _ = await desk.progress(), await desk.told()
        await desk.parts.blobs.delete(["raw/gone.json"])
        environment = {**embedded.environment, "SMAP_MODULES": "prepare", "SMAP_ANALYSTS": "0"}
        parts = replace(desk.parts, settings=replace(embedded, environment=environment))
        first, second = await rerun(parts, PROJECT), await rerun(parts, PROJECT)
        assert (first.rewritten, first.kept) == (3, 1)
        # Nothing but the one that cannot be made anew is looked at twice.
        assert (second.rewritten, second.kept) == (0, 1)
        assert await desk.results(pipeline(["prepare"]).model_version) == ["raw/gone.json"]
        assert await desk.progress() == before
        assert (await desk.told(), await desk.letters()) == ([], [])
