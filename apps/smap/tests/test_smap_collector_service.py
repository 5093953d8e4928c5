"""The collector service: orders in, posts and events out, whatever happens in between."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import httpx
import pytest
from collector_running import (
    blobs_count,
    collecting,
    environment_of,
    order,
    report,
    running,
    sealed,
    tell,
    told,
)
from crawl_site import Reply, Request, open_site
from waiting import eventually

import headrace
from headrace.http import Options, application
from headrace.ports import Delivery, Event, Subscription
from headrace_smap.collector.crawl import Crawl, Outcome
from headrace_smap.collector.crawlers.registry import Crawlers
from headrace_smap.collector.flow import collect_flow
from headrace_smap.collector.halts import Halts
from headrace_smap.collector.harvester import Harvester
from headrace_smap.collector.orders import Orders
from headrace_smap.collector.tasks import CrawlTask
from headrace_smap.collector.wishes import read_wishes
from headrace_smap.count.accountant import Accountant
from headrace_smap.frame import FRAME
from headrace_smap.parts import open_parts
from headrace_smap.settings import SmapSettings
from headrace_smap.values import CRAWLING, DONE

DAYS = {"date_range": ["2025-01-01", "2025-01-02"]}
TIKTOK = {"targets": [{"platform": "TIKTOK"}]}


async def test_what_is_found_is_stored_counted_and_told_exactly(embedded: SmapSettings) -> None:
    crawlers = "*=simulated:posts=45&page=20&overlap=0.2&broken=0.1"
    async with collecting(environment_of(embedded, SMAP_CRAWLERS=crawlers)) as parts:
        targets = [{"platform": "TikTok", "url": "..."}, {"platform": "youtube"}]
        await order(parts, "proj_abc", keywords=["VinFast", "VF3"], targets=targets, **DAYS)
        total = (await sealed(parts, "proj_abc")).total
        events = await told(parts)
        tasks = await report(parts, "proj_abc")
        assert len(tasks) == 9
        assert {state for _, state, _, _ in tasks} == {"done"}
        assert sum(posts for _, _, posts, _ in tasks) == total == len(events) == await blobs_count(parts, "proj_abc")
        assert 300 < total < 405
        path, payload = next(item for item in events.items() if "youtube" in item[0])
        assert (payload["platform"], payload["project_id"]) == ("YOUTUBE", "proj_abc")
        assert path.startswith("raw/youtube/proj_abc/")
        assert payload["crawled_at"].endswith("Z")


@pytest.mark.parametrize(
    "body",
    [
        {"event_id": "evt_1", "timestamp": "2025-11-29T10:00:00Z", "payload": {"project_id": "p", "keywords": ["x"]}},
        {"payload": {"project_id": "p", "keywords": ["x"], "unknown": [1]}},
        {"project_id": "p", "keywords": ["x"]},
    ],
)
async def test_an_order_is_understood_in_every_form(embedded: SmapSettings, body: dict[str, object]) -> None:
    crawlers = "*=simulated:posts=2"
    async with collecting(environment_of(embedded, SMAP_CRAWLERS=crawlers, SMAP_PLATFORMS="tiktok")) as parts:
        await tell(parts, json.dumps(body).encode(), "any")
        assert (await sealed(parts, "p")).total == 2


async def test_garbage_becomes_a_dead_letter_and_holds_up_nobody(embedded: SmapSettings) -> None:
    async with collecting(environment_of(embedded)) as parts:
        for number, body in enumerate((b"\xff\xfe", b"[]", b"{}", b'{"payload": {"project_id": 7}}')):
            await tell(parts, body, f"bad-{number}")
        await order(parts, "good", keywords=["x"], **TIKTOK)
        assert (await sealed(parts, "good")).total == 20

        async def letters() -> list[str] | None:
            found = [letter.reason for letter in await parts.engine.bus.dead("smap.collector")]
            return found if len(found) == 4 else None

        reasons = await eventually(letters, "four dead letters")
        assert {reason.partition(":")[0] for reason in reasons} == {"event_json", "event_payload", "event_project"}


async def test_an_order_that_comes_again_changes_nothing(embedded: SmapSettings) -> None:
    crawlers = "*=simulated:posts=5"
    async with collecting(environment_of(embedded, SMAP_CRAWLERS=crawlers)) as parts:
        await order(parts, "again", keywords=["x"], **TIKTOK)
        first = await sealed(parts, "again")
        for number, words in enumerate((["x"], ["other", "words"])):
            body = {"payload": {"project_id": "again", "keywords": words, **TIKTOK}}
            await tell(parts, json.dumps(body).encode(), f"again-{number}")
        await order(parts, "after", keywords=["x"], **TIKTOK)
        await sealed(parts, "after")
        assert await parts.ledger.tally("again") == first
        assert [name for name, _, _, _ in await report(parts, "again")] == ["tiktok any day x"]
        assert len(await told(parts)) == 10


async def test_an_order_for_a_project_that_is_over_opens_nothing(embedded: SmapSettings) -> None:
    async with collecting(environment_of(embedded)) as parts:
        await order(parts, "over")
        assert (await sealed(parts, "over")).status == DONE
        await parts.ledger.forget("over")
        body = {"payload": {"project_id": "over", "keywords": ["x"]}}
        await tell(parts, json.dumps(body).encode(), "again")
        await order(parts, "after", keywords=["x"], **TIKTOK)
        await sealed(parts, "after")
        assert await parts.ledger.tally("over") is None
        assert await report(parts, "over") == []


async def test_a_project_with_nothing_to_crawl_is_finished_at_once(embedded: SmapSettings) -> None:
    async with collecting(environment_of(embedded)) as parts:
        await order(parts, "empty")
        standing = await sealed(parts, "empty")
        assert (standing.status, standing.total) == (DONE, 0)


async def test_an_order_that_cannot_be_carried_out_says_why_and_is_finished(embedded: SmapSettings) -> None:
    async with collecting(environment_of(embedded)) as parts:
        await order(parts, "huge", keywords=["x"], date_range=["0001-01-01", "9999-12-31"])
        assert (await sealed(parts, "huge")).status == DONE
        ((name, state, posts, error),) = await report(parts, "huge")
        assert (name, state, posts) == ("order", "failed", 0)
        assert "DAYS_MAX" in str(error)


async def test_a_task_that_fails_for_good_is_noted_and_the_project_is_sealed(embedded: SmapSettings) -> None:
    async with open_site() as site:
        busy = iter((503, 503, 200))

        def answer(request: Request) -> Reply:
            return Reply(b'[{"id": "1", "text": "x"}]', next(busy))

        site.pages["/busy"] = answer
        site.pages["/down"] = Reply(status=500)
        wishes = {"SMAP_CRAWL_PRIVATE": "1", "SMAP_CRAWL_INTERVAL_S": "0", "SMAP_CRAWL_ATTEMPTS": "3"}
        async with collecting(environment_of(embedded, **wishes)) as parts:
            targets = [{"platform": "feed", "url": f"{site.url}/{name}"} for name in ("busy", "down", "gone")]
            await order(parts, "failing", targets=targets)
            assert (await sealed(parts, "failing")).total == 1
            tasks = await report(parts, "failing")
            assert [(state, posts) for _, state, posts, _ in tasks] == [("done", 1), ("failed", 0), ("failed", 0)]
            assert "500" in str(tasks[1][3])
            assert "404" in str(tasks[2][3])
            assert site.asked().count("/down") == 3
            assert site.asked().count("/gone") == 1


async def test_a_feed_that_nobody_gave_an_address_is_a_task_that_failed(embedded: SmapSettings) -> None:
    async with collecting(environment_of(embedded)) as parts:
        await order(parts, "addressless", keywords=["a"], targets=[{"platform": "news"}])
        assert (await sealed(parts, "addressless")).total == 0
        ((_, state, _, error),) = await report(parts, "addressless")
        assert (state, "SMAP_CRAWLERS='news=feed:https://" in str(error)) == ("failed", True)


async def test_the_cap_of_a_project_is_exact(embedded: SmapSettings) -> None:
    wishes = {"SMAP_POSTS_MAX": "37", "SMAP_CRAWLERS": "*=simulated:posts=30&page=7"}
    async with collecting(environment_of(embedded, **wishes)) as parts:
        for asked, expected in ((None, 37), (100, 37), (11, 11)):
            project = f"capped-{asked}"
            await order(parts, project, keywords=["a", "b", "c"], posts_max=asked, **TIKTOK)
            assert (await sealed(parts, project)).total == expected
            assert len(await told(parts)) == await blobs_count(parts, project) == expected


async def test_a_crawl_of_many_turns_finds_everything_once(embedded: SmapSettings) -> None:
    wishes = {"SMAP_CRAWL_TURN_S": "0", "SMAP_CRAWLERS": "*=simulated:posts=60&page=10"}
    async with collecting(environment_of(embedded, **wishes)) as parts:
        await order(parts, "long", keywords=["a", "b"], **TIKTOK)
        assert (await sealed(parts, "long")).total == len(await told(parts)) == 120


async def test_a_cancelled_project_stops_soon_at_what_was_found(embedded: SmapSettings) -> None:
    wishes = {"SMAP_CRAWLERS": "slow=simulated:posts=1000&page=1&latency=600,*=simulated:posts=4&page=1"}
    async with collecting(environment_of(embedded, **wishes)) as parts:
        await order(parts, "cancelled", keywords=["a"], targets=[{"platform": "slow"}, {"platform": "tiktok"}])

        async def four() -> bool:
            standing = await parts.ledger.tally("cancelled")
            return standing is not None and (standing.status, standing.total) == (CRAWLING, 5)

        await eventually(four, "four posts are found, and the total is one ahead")
        assert await Accountant(parts).cancel("cancelled")

        async def ended() -> bool:
            return {state for _, state, _, _ in await report(parts, "cancelled")} == {"done", "cancelled"}

        await eventually(ended, "the slow task ends", 10)
        assert (await sealed(parts, "cancelled")).total == len(await told(parts)) == 4


async def test_what_a_service_lets_go_when_it_stops_another_goes_on_with(embedded: SmapSettings) -> None:
    crawlers = "*=simulated:posts=60&page=3&latency=0.02"
    settings = FRAME.load(environment_of(embedded, SMAP_CRAWLERS=crawlers))
    async with open_parts(settings) as parts:
        async with running(parts):
            await order(parts, "handed", keywords=["a", "b"], **TIKTOK)

            async def begun() -> bool:
                standing = await parts.ledger.tally("handed")
                return standing is not None and standing.total > 10

            await eventually(begun, "some posts are found")
        assert (await Accountant(parts).progress("handed") or {})["status"] == CRAWLING
    async with open_parts(settings) as parts, running(parts):
        assert (await sealed(parts, "handed")).total == len(await told(parts)) == 120
        assert {state for _, state, _, _ in await report(parts, "handed")} == {"done"}


async def test_posts_wait_until_somebody_listens(embedded: SmapSettings) -> None:
    settings = FRAME.load(environment_of(embedded, SMAP_CRAWLERS="*=simulated:posts=3"))
    async with open_parts(settings) as parts, running(parts):
        await parts.engine.bus.unsubscribe("smap.analytics")
        await order(parts, "early", keywords=["a"], **TIKTOK)

        async def stored() -> bool:
            return await blobs_count(parts, "early") == 3

        await eventually(stored, "three posts are stored")
        assert (await Accountant(parts).progress("early") or {})["status"] == CRAWLING
        await parts.bus.subscribe(Subscription("smap.analytics", ("data.collected",)))
        assert (await sealed(parts, "early")).total == len(await told(parts)) == 3


async def test_the_tasks_of_a_project_are_told_over_http(embedded: SmapSettings) -> None:
    settings = FRAME.load(environment_of(embedded, SMAP_CRAWLERS="*=simulated:posts=3"))
    async with open_parts(settings) as parts, running(parts) as service:
        await order(parts, "asked", keywords=["a", "b"], **TIKTOK)
        await sealed(parts, "asked")
        app = application(Options("collector"), service.routes())
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answer = (await client.get("/projects/asked/crawls", params={"limit": 1})).json()
            assert [(task["keyword"], task["state"], task["posts"]) for task in answer["tasks"]] == [("a", "done", 3)]
            following = await client.get("/projects/asked/crawls", params={"after": answer["next"]})
            assert [task["keyword"] for task in following.json()["tasks"]] == ["b"]
            assert (await client.get("/projects/none/crawls")).status_code == 404


class Unlucky(Crawl):
    """Its process died with each task, once too often in a row."""

    deaths = 0

    async def turn(self, task: CrawlTask, fence: int) -> Outcome:
        if self.deaths < 4:
            self.deaths += 1
            return headrace.Dead("worker_lost", rule="worker_lost")
        return await super().turn(task, fence)


async def test_tasks_whose_processes_died_too_often_get_another_round(embedded: SmapSettings) -> None:
    settings = FRAME.load(environment_of(embedded, SMAP_CRAWLERS="*=simulated:posts=3"))
    async with open_parts(settings) as parts:
        await parts.bus.subscribe(Subscription("smap.analytics", ("data.collected",)))
        wishes, accountant = read_wishes(settings.environment), Accountant(parts)
        harvester = Harvester(parts, accountant, lambda: datetime.now(UTC))
        crawl = Unlucky(harvester, Crawlers(wishes), Halts(parts.database), wishes)
        flow = collect_flow(crawl, parts.engine, lanes=2)
        body = json.dumps({"project_id": "unlucky", "keywords": ["a", "b", "c"], **TIKTOK}).encode()
        async with parts.engine.worker(flow):
            delivery = Delivery("smap.collector", 1, 1, Event("e", "project.created", body))
            await Orders(parts, accountant, wishes).handle([delivery], flow, lambda: datetime.now(UTC))
            assert (await sealed(parts, "unlucky")).total == len(await told(parts)) == 9
        assert {state for _, state, _, _ in await report(parts, "unlucky")} == {"done"}


async def test_two_instances_share_a_project(embedded: SmapSettings) -> None:
    environment = environment_of(embedded, SMAP_CRAWLERS="*=simulated:posts=40&page=5&latency=0.005")
    async with collecting(environment) as parts, collecting(environment):
        words = [f"k{number}" for number in range(6)]
        await asyncio.gather(*(order(parts, f"shared-{number}", keywords=words, **TIKTOK) for number in range(3)))
        totals = [(await sealed(parts, f"shared-{number}")).total for number in range(3)]
        assert totals == [240, 240, 240]
        assert len(await told(parts)) == 720
