"""People are told of the real end, with its counts, whoever has announced whatever before."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from smap_office import result

from headrace.ports import Delivery, Event
from headrace.testing import HttpReceiver
from headrace.testing.rig.smtp import SmtpServer
from headrace_smap import envelope
from headrace_smap.analytics.work import COLUMNS
from headrace_smap.count.accountant import Accountant, ItemEnd
from headrace_smap.count.completions import Completions
from headrace_smap.frame import FRAME, report_url
from headrace_smap.insight.aggregates import Aggregator
from headrace_smap.insight.notices import ROOM, Notifier
from headrace_smap.insight.service import InsightService
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.project.creator import Creator
from headrace_smap.project.orders import AcceptedOrder
from headrace_smap.settings import SmapSettings

WEBHOOK = {"SMAP_WEBHOOK_SECRET": f"whsec_{base64.b64encode(b'k' * 24).decode()}"}
NOW = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Office:
    """An insight service that tells by webhook, and what the receiver got."""

    parts: SmapParts
    notifier: Notifier
    hook: HttpReceiver

    @property
    def told(self) -> list[dict[str, object]]:
        return [got.document["data"] for got in self.hook.requests]

    async def hear(self, project: str, **fields: object) -> int:
        """A foreign `job.completed`; how many notices were due after it."""
        await self.notifier.handle([completed(project, **fields)])
        return await self.notifier.send_due()


@pytest.fixture(params=["sqlite", "postgres"])
async def office(request: pytest.FixtureRequest, embedded: SmapSettings, hook: HttpReceiver) -> AsyncIterator[Office]:
    settings = replace(embedded, environment={**embedded.environment, **WEBHOOK, "SMAP_WEBHOOK_URL": hook.url})
    if request.param == "postgres":
        settings = replace(settings, pg_dsn=request.getfixturevalue("smap_database"))
    async with open_parts(settings) as parts:
        yield Office(parts, InsightService(parts).notifier, hook)


def completed(project: str, **fields: object) -> Delivery:
    """As others announce it: flat, and with whatever they like beside the name."""
    body = json.dumps({"project_id": project, **fields}).encode()
    return Delivery("smap.notification", 1, 1, Event("e", "job.completed", body))


def ends(first: int, last: int, ok: bool = True) -> list[ItemEnd]:
    return [ItemEnd("p", f"raw/{number}.json", ok, "" if ok else "invalid_json") for number in range(first, last)]


async def open_crawl(office: Office) -> Accountant:
    """Our crawl goes on: 30 were found by now, and 5 have ended."""
    accountant = Accountant(office.parts)
    await accountant.open("p")
    await accountant.expect("p", 30)
    await accountant.settle(ends(0, 5))
    return accountant


async def state(office: Office, project: str) -> tuple[str, int]:
    ((_, _, _, state, attempts, _, _, _),) = await office.parts.database.rows("notice_list", project=project)
    return state, attempts


async def test_an_end_that_was_announced_too_early_is_told_when_it_comes(office: Office) -> None:
    accountant = await open_crawl(office)
    assert await office.hear("p") == 0
    assert await office.hear("p", total=5, done=5, errors=0) == 0
    assert await state(office, "p") == ("waiting", 0)
    await accountant.settle([*ends(5, 29), *ends(29, 31, ok=False)])
    assert await office.notifier.send_due() == 0, "it may still find more"
    await accountant.seal("p", 31)
    assert await office.notifier.send_due() == 1
    assert await office.hear("p") == 0
    assert office.told == [{"project_id": "p", "total": 31, "done": 31, "errors": 2, "report_url": ""}]
    assert office.hook.requests[0].headers["webhook-id"] == envelope.derived_id("notice", "p", "webhook")
    assert await state(office, "p") == ("sent", 1)


async def test_ends_that_are_none_yet_do_not_keep_others_waiting(office: Office) -> None:
    for number in range(ROOM + 1):
        await office.parts.database.rows("truth_open", project=f"open {number}", now=NOW)
        assert await office.hear(f"open {number}") == 0
    assert await office.hear("foreign") == 1
    assert [data["project_id"] for data in office.told] == ["foreign"]


async def test_a_project_that_we_do_not_know_is_told_at_once_as_it_was_announced(office: Office) -> None:
    await Completions(office.parts.database).handle([completed("flat")])
    assert await office.hear("flat", total=8, done=7, errors=3) == 1
    assert await office.hear("wrapped", payload={"project_id": "wrapped", "total": 0, "done": 0, "errors": 0}) == 1
    assert office.told == [
        {"project_id": "flat", "total": 8, "done": 7, "errors": 3, "report_url": ""},
        {"project_id": "wrapped", "total": 0, "done": 0, "errors": 0, "report_url": ""},
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"total": 8, "done": 8},
        {"total": "8", "done": 8, "errors": 0},
        {"total": True, "done": 1, "errors": 0},
        {"total": 8, "done": -1, "errors": 0},
        {"total": 10**30, "done": 8, "errors": 0},
    ],
)
async def test_counts_that_nobody_knows_are_not_told(office: Office, fields: dict[str, object]) -> None:
    await Completions(office.parts.database).handle([completed("p")])
    assert await office.hear("p", **fields) == 1
    assert office.told == [{"project_id": "p", "report_url": ""}]


async def test_mail_and_zalo_tell_an_end_without_counts(
    embedded: SmapSettings, hook: HttpReceiver, smtp_inbox: SmtpServer
) -> None:
    mail = {"SMAP_SMTP_URL": smtp_inbox.url, "SMAP_MAIL_FROM": "s@x.vn", "SMAP_MAIL_TO": "a@x.vn"}
    zalo = {"SMAP_ZALO_USER_ID": "1", "SMAP_ZALO_ACCESS_TOKEN": "t", "SMAP_ZALO_API_URL": hook.url}
    async with open_parts(replace(embedded, environment={**embedded.environment, **mail, **zalo})) as parts:
        notifier = InsightService(parts).notifier
        await notifier.handle([completed("p")])
        assert await notifier.send_due() == 2
    (letter,), (message,) = smtp_inbox.messages(), hook.requests
    text = "Dự án p đã phân tích xong.\n\nProject p is analysed."
    assert message.document["message"]["text"] == text
    assert letter.message.get_content().splitlines() == text.splitlines()


async def finished(office: Office, *results: dict[str, object], **order: Any) -> str:
    """A project with these results that has come to its end."""
    accountant = Accountant(office.parts)
    await Creator(office.parts).create("p", AcceptedOrder(["VF3"], [], **order))
    rows = [[row.get(name) for name in COLUMNS] for row in results]
    await office.parts.database.rows("upsert_post_analytics", rows=rows, projects=("p",))
    await accountant.settle([ItemEnd("p", str(row["minio_path"])) for row in results])
    await accountant.seal("p", len(results))
    return "p"


RESULTS = [
    result("p", "1", sentiment="positive"),
    result("p", "2", sentiment="negative", risk="HIGH"),
    result("p", "3", sentiment="negative", risk="CRITICAL"),
    result("p", "4", sentiment="neutral"),
    result("p", "5", sentiment="positive", is_spam=True, risk="HIGH"),
]


async def test_an_end_tells_name_shares_and_risk_and_leaves_spam_out(office: Office) -> None:
    project = await finished(office, *RESULTS, name="VF3 tháng 1")
    assert await office.hear(project) == 1
    (data,) = office.told
    assert data["name"] == "VF3 tháng 1"
    assert data["shares"] == {"positive": 0.25, "neutral": 0.25, "negative": 0.5}
    assert data["risk"] == {"HIGH": 1, "CRITICAL": 1}
    assert (data["spam"], data["simulated"], data["total"]) == (1, 0, 5)


async def test_results_that_others_keep_have_shares_and_no_risk(office: Office) -> None:
    event = envelope.analysis_finished("p", "raw/1.json", {"platform": "X", "sentiment": "negative"}, NOW)
    await Aggregator(office.parts.database).handle([Delivery("smap.insight", 1, 1, event)])
    assert await office.hear("p") == 1
    (data,) = office.told
    assert data["shares"] == {"positive": 0.0, "neutral": 0.0, "negative": 1.0}
    assert "risk" not in data


@pytest.mark.parametrize(
    ("public", "link"),
    [
        ({}, "http://127.0.0.1:8084/projects/p/report"),
        ({"SMAP_PUBLIC_URL": "https://smap.vn/"}, "https://smap.vn/projects/p/report"),
    ],
)
async def test_mail_says_it_in_two_languages_with_a_link_that_works(
    embedded: SmapSettings, smtp_inbox: SmtpServer, public: dict[str, str], link: str
) -> None:
    mail = {"SMAP_SMTP_URL": smtp_inbox.url, "SMAP_MAIL_FROM": "s@x.vn", "SMAP_MAIL_TO": "a@x.vn"}
    # As `up` starts it.
    settings = FRAME.load({**embedded.environment, **mail, **public, **report_url(public, 8084)})
    async with open_parts(settings) as parts, parted(parts) as office:
        results = [{**row, "simulated": True} for row in RESULTS]
        await office.hear(await finished(office, *results, name="VF3\ttháng 1"))
    (letter,) = smtp_inbox.messages()
    assert letter.message["Subject"] == "VF3 tháng 1: đã phân tích xong · VF3 tháng 1: analysed"
    vietnamese, english = letter.message.get_content().strip().split("\n\n")
    assert vietnamese.splitlines() == [
        "Dự án VF3 tháng 1 đã phân tích xong: 5 / 5 bài, 0 lỗi.",
        "Tích cực 25,0 %, trung tính 25,0 %, tiêu cực 50,0 %, không tính 1 bài spam.",
        "Rủi ro: 1 bài CRITICAL, 1 bài HIGH.",
        "5 bài là mô phỏng: do máy đặt ra, không phải ý kiến của ai.",
        f"Báo cáo: {link}",
    ]
    assert english.splitlines() == [
        "Project VF3 tháng 1 is analysed: 5 of 5 posts, 0 failed.",
        "Positive 25.0 %, neutral 25.0 %, negative 50.0 %, leaving out 1 spam post.",
        "Risk: 1 CRITICAL, 1 HIGH.",
        "5 posts are simulated: made up, and nobody's opinion.",
        f"Report: {link}",
    ]


async def failed_tasks(office: Office, count: int) -> None:
    about = {"platform": "rss", "keyword": "", "url": "https://x.vn/feed", "day": "", "document": "", "error": "404"}
    rows = [{"task": f"t{number}", "position": number, "state": "failed", **about} for number in range(count)]
    await office.parts.database.rows("crawl_plan", project="p", rows=rows, now=NOW)


async def test_an_end_tells_how_many_tasks_of_the_crawl_failed(office: Office) -> None:
    project = await finished(office, *RESULTS)
    await failed_tasks(office, 2)
    await office.hear(project)
    (data,) = office.told
    assert (data["failed_tasks"], data["total"]) == (2, 5)


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (
            RESULTS[:1],
            [
                "VF3: đã phân tích xong · VF3: analysed",
                "Dự án VF3 đã phân tích xong: 1 / 1 bài, 0 lỗi.",
                "2 tác vụ thu thập bị lỗi: kết quả không đầy đủ, lý do có trong báo cáo.",
                "Project VF3 is analysed: 1 of 1 posts, 0 failed.",
                "2 crawl tasks failed: this is not all, and the report says why.",
            ],
        ),
        (
            (),
            [
                "VF3: không thu thập được bài nào · VF3: nothing could be crawled",
                "Dự án VF3 không thu thập được bài nào.",
                "2 tác vụ thu thập bị lỗi: kết quả không đầy đủ, lý do có trong báo cáo.",
                "Nothing could be crawled for project VF3.",
                "2 crawl tasks failed: this is not all, and the report says why.",
            ],
        ),
    ],
)
async def test_mail_does_not_call_a_failed_crawl_analysed(
    embedded: SmapSettings, smtp_inbox: SmtpServer, results: list[dict[str, object]], said: list[str]
) -> None:
    mail = {"SMAP_SMTP_URL": smtp_inbox.url, "SMAP_MAIL_FROM": "s@x.vn", "SMAP_MAIL_TO": "a@x.vn"}
    settings = replace(embedded, environment={**embedded.environment, **mail})
    async with open_parts(settings) as parts, parted(parts) as office:
        await finished(office, *results, name="VF3")
        await failed_tasks(office, 2)
        await office.hear("p")
    (letter,) = smtp_inbox.messages()
    parts_of = letter.message.get_content().strip().split("\n\n")
    assert [letter.message["Subject"], *(line for part in parts_of for line in part.splitlines()[:2])] == said


@asynccontextmanager
async def parted(parts: SmapParts) -> AsyncIterator[Office]:
    with HttpReceiver() as hook:
        yield Office(parts, InsightService(parts).notifier, hook)


async def test_nobody_is_told_of_what_was_cancelled_or_deleted_before_its_end(office: Office) -> None:
    accountant = await open_crawl(office)
    assert await accountant.cancel("p")
    await office.parts.database.rows("truth_open", project="gone", now=NOW)
    await accountant.forget("gone")
    for project in ("p", "gone"):
        await office.hear(project)
        assert await state(office, project) == ("given up", 1), "there is nothing to wait for"
    assert office.told == []
