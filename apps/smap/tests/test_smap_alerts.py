"""A post of high risk is told while the crawl goes on, once per level, and a flood of them is one message."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from smap_office import result
from smap_processes import town
from waiting import eventually

from headrace.errors import CallerError
from headrace.ports import Delivery
from headrace.testing import HttpAnswer, HttpReceiver, HttpRequest
from headrace.testing.rig.smtp import SmtpServer
from headrace_smap import envelope
from headrace_smap.analytics.work import COLUMNS
from headrace_smap.count.accountant import Accountant
from headrace_smap.frame import FRAME
from headrace_smap.insight.alerts import batch_of
from headrace_smap.insight.channels import NotificationSettings
from headrace_smap.insight.service import InsightService
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.project.creator import Creator
from headrace_smap.project.orders import AcceptedOrder
from headrace_smap.settings import SmapSettings

WEBHOOK = {"SMAP_WEBHOOK_SECRET": f"whsec_{base64.b64encode(b'k' * 24).decode()}"}
AT = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
INTERVAL = timedelta(seconds=300)
POST: dict[str, Any] = {
    "text": "Dịch vụ quá tệ,\nthất vọng",
    "author_name": "Nguyễn An",
    "url": "https://tiktok.com/@an/1",
    "published_at": "2025-01-01T18:30:00+00:00",
    "sentiment": "negative",
    "sentiment_score": -0.91,
    "aspect_sentiments": {"service": {"label": "negative", "score": -0.9}, "price": {"label": "positive", "score": 1}},
    "impact": 73.4,
    "missing": ["followers"],
    "risk": "CRITICAL",
    "risk_score": 66.0,
}


@dataclass
class Watch:
    """An insight service that alerts by webhook, and what the receiver got. Its clock is moved by hand."""

    parts: SmapParts
    insight: InsightService
    hook: HttpReceiver
    now: datetime = AT

    async def analysed(self, *paths: str, project: str = "p", **columns: Any) -> list[Delivery]:
        """Results, stored and told as analytics does it."""
        rows = [result(project, path, **{**POST, **columns}) for path in paths]
        stored = [[row.get(name) for name in COLUMNS] for row in rows]
        await self.parts.database.rows("upsert_post_analytics", rows=stored, projects=(project,))
        return [told(row["minio_path"], row["risk"], project) for row in rows]

    async def hear(self, deliveries: list[Delivery]) -> int:
        """What is told is taken in, gathered and sent; how many messages were tried."""
        await self.insight._results(deliveries)
        await self.insight.alerts.gather(self.now)
        return await self.insight.notifier.send_due()

    @property
    def alerts(self) -> list[dict[str, Any]]:
        return [got.document["data"] for got in self.hook.requests if got.document["type"] == "post.alert"]


def told(path: str, risk: str, project: str = "p") -> Delivery:
    result = {"platform": "TIKTOK", "sentiment": "negative", "risk": risk}
    return Delivery("smap.insight", 1, 1, envelope.analysis_finished(project, path, result, AT))


@asynccontextmanager
async def open_watch(settings: SmapSettings, hook: HttpReceiver, **environment: str) -> AsyncIterator[Watch]:
    variables = {**settings.environment, **WEBHOOK, "SMAP_WEBHOOK_URL": hook.url, **environment}
    async with open_parts(replace(settings, environment=variables)) as parts:
        creator = Creator(parts)
        await creator.create("p", AcceptedOrder(["VF3"], [], name="VF3 tháng 1"))
        yield Watch(parts, InsightService(parts), hook)


@pytest.fixture(params=["sqlite", "postgres"])
async def watch(request: pytest.FixtureRequest, embedded: SmapSettings, hook: HttpReceiver) -> AsyncIterator[Watch]:
    settings = embedded
    if request.param == "postgres":
        settings = replace(embedded, pg_dsn=request.getfixturevalue("smap_database"))
    async with open_watch(settings, hook) as opened:
        yield opened


async def test_a_post_of_high_risk_is_told_while_the_crawl_goes_on(watch: Watch) -> None:
    assert await watch.hear(await watch.analysed("1")) == 1
    (data,) = watch.alerts
    assert (data["project_id"], data["name"]) == ("p", "VF3 tháng 1")
    assert data["risk"] == {"HIGH": 0, "CRITICAL": 1}
    (post,) = data["posts"]
    assert (post["text"], post["author"], post["url"]) == ("Dịch vụ quá tệ, thất vọng", "Nguyễn An", POST["url"])
    assert (post["risk"], post["impact"], post["simulated"]) == ("CRITICAL", 73.4, False)
    assert post["missing"] == ["followers"]


async def test_an_alert_is_sent_once_however_often_it_is_told(watch: Watch) -> None:
    deliveries = await watch.analysed("1")
    assert await watch.hear([*deliveries, *deliveries]) == 1
    watch.now += INTERVAL * 2
    assert await watch.hear(deliveries) == 0
    assert len(watch.alerts) == 1


async def test_a_post_that_becomes_worse_is_told_again(watch: Watch) -> None:
    assert await watch.hear(await watch.analysed("1", risk="HIGH")) == 1
    watch.now += INTERVAL * 2
    assert await watch.hear(await watch.analysed("1", risk="CRITICAL")) == 1
    assert [data["posts"][0]["risk"] for data in watch.alerts] == ["HIGH", "CRITICAL"]


async def test_a_flood_is_one_digest(watch: Watch) -> None:
    assert await watch.hear(await watch.analysed("first", risk="HIGH")) == 1
    for number in range(20):
        watch.now += INTERVAL / 30
        risk = "CRITICAL" if number == 7 else "HIGH"
        assert await watch.hear(await watch.analysed(f"{number}", risk=risk, risk_score=float(number))) == 0
    watch.now += INTERVAL
    assert await watch.hear([]) == 1
    _, digest = watch.alerts
    assert digest["risk"] == {"HIGH": 19, "CRITICAL": 1}
    assert [post["minio_path"] for post in digest["posts"]] == ["7", "19", "18", "17", "16"]


async def test_projects_do_not_wait_for_each_other(watch: Watch) -> None:
    assert await watch.hear(await watch.analysed("1")) == 1
    assert await watch.hear(await watch.analysed("1", project="q")) == 1


async def test_two_that_gather_make_one_message(watch: Watch) -> None:
    await watch.insight._results(await watch.analysed(*map(str, range(30))))
    others = [InsightService(replace(watch.parts, registry=watch.parts.registry)) for _ in range(4)]
    await asyncio.gather(*(other.alerts.gather(watch.now) for other in others))
    assert sum(await asyncio.gather(*(other.notifier.send_due() for other in others))) == 1
    assert [data["risk"]["CRITICAL"] for data in watch.alerts] == [30]


async def test_a_batch_that_is_sent_again_after_a_lost_answer_takes_nothing_more(watch: Watch) -> None:
    """Its message may be with people by then. Without an interval nothing else would hold up what came meanwhile."""
    gather = ("alert_gather", {"project": "p", "batch": "b", "now": watch.now, "since": watch.now})
    await watch.insight._results(await watch.analysed("1"))
    await watch.parts.database.transact(gather)
    await watch.insight._results(await watch.analysed("2"))
    await watch.parts.database.transact(gather)
    assert (await batch_of(watch.parts.database, "p", "b")).count == 1
    assert await watch.insight.alerts.gather(watch.now + INTERVAL) == 1


async def test_what_comes_while_somebody_gathers_waits_for_the_next_message(
    embedded: SmapSettings, hook: HttpReceiver, smap_database: str
) -> None:
    async with open_watch(replace(embedded, pg_dsn=smap_database), hook) as watch:
        await watch.insight._results(await watch.analysed("1"))
        async with await psycopg.AsyncConnection.connect(smap_database) as other:
            await other.execute("SELECT pg_advisory_xact_lock(hashtext('smap_alert'), hashtext('p'))")
            await other.execute("UPDATE smap_alert SET batch = 'theirs', gathered_at = %s", (watch.now,))
            await watch.insight._results(await watch.analysed("2"))
            gathering = asyncio.create_task(watch.insight.alerts.gather(watch.now))
            await eventually(lambda: _waits(smap_database), "it waits for the other one")
        await gathering
        assert await watch.parts.database.rows("notice_list", project="p") == []


async def _waits(url: str) -> bool:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        found = await connection.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return await found.fetchone() is not None


@pytest.mark.parametrize("columns", [{"risk": "MEDIUM"}, {"risk": ""}, {"is_spam": True}])
async def test_what_is_no_risk_or_spam_is_not_told(watch: Watch, columns: dict[str, Any]) -> None:
    assert await watch.hear(await watch.analysed("1", **columns)) == 0


async def test_a_made_up_post_says_so(watch: Watch) -> None:
    await watch.hear(await watch.analysed("1", "2", simulated=True))
    (data,) = watch.alerts
    assert (data["simulated"], [post["simulated"] for post in data["posts"]]) == (2, [True, True])


async def test_a_result_that_others_keep_is_told_as_far_as_it_is_known(watch: Watch) -> None:
    assert await watch.hear([told("raw/1.json", "HIGH")]) == 1
    ((post,),) = (data["posts"] for data in watch.alerts)
    assert (post["minio_path"], post["risk"], post["text"], post["simulated"]) == ("raw/1.json", "HIGH", "", False)


async def test_nobody_is_alerted_of_what_was_cancelled_or_deleted(watch: Watch) -> None:
    deliveries = await watch.analysed("1")
    await Accountant(watch.parts).cancel("p")
    await watch.hear(deliveries)
    assert watch.alerts == []


async def test_an_alert_that_is_not_taken_is_tried_again_under_its_id(watch: Watch) -> None:
    watch.hook.answer = lambda got: HttpAnswer(503 if len(watch.hook.requests) == 1 else 200, {})
    await watch.hear(await watch.analysed("1"))
    ((_, _, notice, state, *_),) = await watch.parts.database.rows("notice_list", project="p")
    assert state == "waiting"
    await watch.parts.database.rows("notice_failed", notice=notice, state="waiting", due=AT, error="")
    await watch.insight.notifier.send_due()
    assert [got.headers["webhook-id"] for got in watch.hook.requests] == [notice, notice]


async def test_the_end_is_told_beside_the_alerts(watch: Watch) -> None:
    await watch.hear(await watch.analysed("1"))
    await watch.insight.notifier.add("p")
    assert await watch.insight.notifier.send_due() == 0, "the crawl goes on"
    accountant = Accountant(watch.parts)
    await accountant.seal("p", 0)
    assert await watch.insight.notifier.send_due() == 1
    assert [got.document["type"] for got in watch.hook.requests] == ["post.alert", "job.completed"]
    rows = await watch.parts.database.rows("notice_list", project="p")
    assert sorted(row[-1] for row in rows) == ["alert", "end"]


@pytest.mark.parametrize(("level", "sent"), [("high", ["HIGH", "CRITICAL"]), ("CRITICAL", ["CRITICAL"]), ("off", [])])
async def test_the_setting_says_from_which_risk_on(
    embedded: SmapSettings, hook: HttpReceiver, level: str, sent: list[str]
) -> None:
    async with open_watch(embedded, hook, SMAP_ALERT_RISK=level, SMAP_ALERT_INTERVAL_S="0") as watch:
        for risk in ("LOW", "MEDIUM", "HIGH", "CRITICAL"):
            watch.now += INTERVAL
            await watch.hear(await watch.analysed(risk, risk=risk))
        assert [post["risk"] for data in watch.alerts for post in data["posts"]] == sent


def test_a_risk_that_there_is_not_is_refused() -> None:
    with pytest.raises(CallerError, match="SMAP_ALERT_RISK = 'LOW' is none of HIGH, CRITICAL and off"):
        NotificationSettings.read({"SMAP_ALERT_RISK": "LOW"})


async def test_mail_tells_the_post_and_why_in_two_languages(
    embedded: SmapSettings, hook: HttpReceiver, smtp_inbox: SmtpServer
) -> None:
    mail = {"SMAP_SMTP_URL": smtp_inbox.url, "SMAP_MAIL_FROM": "s@x.vn", "SMAP_MAIL_TO": "a@x.vn"}
    settings = replace(embedded, report_url="http://127.0.0.1:8084/projects/{project}/report")
    async with open_watch(settings, hook, **mail) as watch:
        hostile = {
            "author_name": "An\r\nBcc: b@x.vn",
            "url": "javascript:alert(1)",
            "risk_score": 1.0,
            "simulated": True,
        }
        await watch.hear([*await watch.analysed("1"), *await watch.analysed("2", risk="HIGH", **hostile)])
    (letter,) = smtp_inbox.messages()
    subject = "[CRITICAL] VF3 tháng 1: 2 bài rủi ro cao · VF3 tháng 1: 2 posts of high risk · mô phỏng · simulated"
    assert letter.message["Subject"] == subject
    assert letter.recipients == ("a@x.vn",)
    assert letter.message.get_content().strip().replace("\r\n", "\n") == (
        "2 bài rủi ro cao của dự án VF3 tháng 1: 1 CRITICAL, 1 HIGH.\n"
        "1 bài là mô phỏng: do máy đặt ra, không phải ý kiến của ai.\n"
        "Báo cáo: http://127.0.0.1:8084/projects/p/report\n"
        "\n"
        "2 posts of high risk in project VF3 tháng 1: 1 CRITICAL, 1 HIGH.\n"
        "1 post is simulated: made up, and nobody's opinion.\n"
        "Report: http://127.0.0.1:8084/projects/p/report\n"
        "\n"
        "[CRITICAL] Dịch vụ quá tệ, thất vọng\n"
        "Nguyễn An · tiktok · 2025-01-02 01:30 Asia/Ho_Chi_Minh\n"
        "https://tiktok.com/@an/1\n"
        "Vì sao: tiêu cực (−0,91), chê dịch vụ, tác động 73 / 100, không rõ người theo dõi.\n"
        "Why: negative (−0.91), complaints about service, impact 73 / 100, not known: followers.\n"
        "\n"
        "Bài mô phỏng: do máy đặt ra, không phải ý kiến của ai. · A simulated post: made up, and nobody's opinion.\n"
        "[HIGH] Dịch vụ quá tệ, thất vọng\n"
        "An Bcc: b@x.vn · tiktok · 2025-01-02 01:30 Asia/Ho_Chi_Minh\n"
        "Vì sao: tiêu cực (−0,91), chê dịch vụ, tác động 73 / 100, không rõ người theo dõi.\n"
        "Why: negative (−0.91), complaints about service, impact 73 / 100, not known: followers."
    )


async def test_zalo_gets_what_it_can_take(embedded: SmapSettings, hook: HttpReceiver) -> None:
    zalo = {"SMAP_ZALO_USER_ID": "1", "SMAP_ZALO_ACCESS_TOKEN": "t", "SMAP_ZALO_API_URL": hook.url}
    async with open_watch(embedded, hook, **zalo) as watch:
        await watch.hear(await watch.analysed(*map(str, range(9)), text="x" * 5_000))
    (message,) = [got.document["message"]["text"] for got in hook.requests if got.path.startswith("/v3.0")]
    assert len(message) <= 2_000
    assert message.startswith("9 bài rủi ro cao")


async def test_a_service_that_is_killed_while_it_sends_repeats_under_the_same_id(
    embedded: SmapSettings, hook: HttpReceiver, tmp_path: Path
) -> None:
    variables = {**embedded.environment, **WEBHOOK, "SMAP_WEBHOOK_URL": hook.url, "SMAP_ALERT_INTERVAL_S": "0"}
    settings = FRAME.load(variables)
    async with open_watch(settings, hook) as watch:
        with town(variables, tmp_path) as place:
            first = await asyncio.to_thread(place.ours, "insight")

            def kill(_: HttpRequest) -> HttpAnswer:
                first.process.kill()
                return HttpAnswer()

            hook.answer = kill
            events = [each.event for each in await watch.analysed("1", "2", "3")]
            await watch.parts.bus.publish(events)
            await asyncio.to_thread(first.process.wait, 60)
            first.kill()
            hook.answer = lambda got: HttpAnswer(200, {})
            ((_, _, notice, state, *_),) = await watch.parts.database.rows("notice_list", project="p")
            assert state == "waiting", "it was not written down that somebody has it"
            await watch.parts.database.rows("notice_failed", notice=notice, state="waiting", due=AT, error="")
            await asyncio.to_thread(place.ours, "insight")
            await watch.parts.bus.publish([replace(event, event_id=f"{event.event_id} again") for event in events])

            async def sent() -> bool:
                rows = await watch.parts.database.rows("notice_list", project="p")
                return bool(rows) and all(row[3] == "sent" for row in rows)

            await eventually(sent, "the second service has sent it")
    assert {got.headers["webhook-id"] for got in hook.requests} == {notice}
    assert [data["risk"]["CRITICAL"] for data in watch.alerts] == [3] * len(hook.requests)
