"""People are told once per project and channel, with retries, and always under the same id."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks.webhooks import Webhook
from waiting import eventually

from headrace.errors import CallerError
from headrace.ports import Delivery, Event
from headrace.testing import HttpAnswer, HttpReceiver, HttpRequest
from headrace.testing.rig.smtp import SmtpServer
from headrace_smap import envelope
from headrace_smap.database import Database, open_database
from headrace_smap.insight.channels import NotificationSettings, channels, default_receivers
from headrace_smap.insight.messages import finished_message
from headrace_smap.insight.notices import (
    ATTEMPTS_MAX,
    PAUSES,
    DueNotice,
    Notice,
    NoticeRefused,
    Notifier,
    OutgoingMessage,
)
from headrace_smap.receivers import ReceiverBook
from headrace_smap.settings import SmapSettings
from headrace_smap.values import DONE, Standing

SECRET = f"whsec_{base64.b64encode(b'k' * 24).decode()}"
COUNTS = {"total": 10, "done": 10, "errors": 1}
ZALO = {"SMAP_ZALO_USER_ID": "186729651760683225", "SMAP_ZALO_ACCESS_TOKEN": "first"}


class Teller:
    """Knows every project but one."""

    async def message(self, due: DueNotice) -> OutgoingMessage:
        if due.project == "cancelled":
            raise NoticeRefused("it was cancelled")
        return finished_message(Notice(due.notice_id, due.project, COUNTS, "http://h/projects/p/report"))


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, embedded: SmapSettings) -> AsyncIterator[Database]:
    settings = embedded
    if request.param == "postgres":
        settings = replace(embedded, pg_dsn=request.getfixturevalue("smap_database"))
    settings.home.mkdir(exist_ok=True)
    async with open_database(settings.engine_url) as opened:
        yield opened


def notifier(database: Database, **environment: str) -> Notifier:
    settings = NotificationSettings.read(environment)
    book = ReceiverBook(database, default_receivers(settings))
    return Notifier(database, channels(settings, database), book, Teller())


def by_webhook(database: Database, hook: HttpReceiver) -> Notifier:
    return notifier(database, SMAP_WEBHOOK_URL=hook.url, SMAP_WEBHOOK_SECRET=SECRET)


def by_zalo(database: Database, hook: HttpReceiver, **more: str) -> Notifier:
    return notifier(database, SMAP_ZALO_API_URL=hook.url, SMAP_ZALO_OAUTH_URL=hook.url, **ZALO, **more)


def completed(body: bytes) -> Delivery:
    return Delivery("smap.notification", 1, 1, Event("e", "job.completed", body))


async def make_due(database: Database, project: str, channel: str) -> None:
    past, notice = datetime.now(UTC) - timedelta(hours=1), envelope.derived_id("notice", project, channel)
    await database.rows("notice_failed", notice=notice, state="waiting", due=past, error="")


async def states(database: Database, project: str) -> list[tuple[str, str, int]]:
    return [(row[0], row[3], row[4]) for row in await database.rows("notice_list", project=project)]


async def test_without_settings_it_is_quiet(database: Database) -> None:
    quiet = notifier(database)
    await quiet.handle([completed(b'{"project_id": "p"}')])
    assert await quiet.send_due() == 0
    assert await states(database, "p") == []


async def test_a_mail_is_sent_once_however_often_the_end_is_told(database: Database, smtp_inbox: SmtpServer) -> None:
    mail = notifier(
        database, SMAP_SMTP_URL=smtp_inbox.url, SMAP_MAIL_FROM="Smap <smap@example.com>", SMAP_MAIL_TO="a@x.vn, b@x.vn"
    )
    ours = envelope.job_completed("proj_abc", Standing(DONE, 10, 10, 1), datetime.now(UTC)).body
    for body in (ours, b'{"project_id": "proj_abc"}', b"not json", ours):
        await mail.handle([completed(body)])
        await mail.send_due()
    (got,) = smtp_inbox.messages()
    assert got.recipients == ("a@x.vn", "b@x.vn")
    assert got.message["Message-ID"] == f"<{envelope.derived_id('notice', 'proj_abc', 'mail')}@example.com>"
    text = got.message.get_content()
    assert "10 / 10 bài, 1 lỗi" in text
    assert "http://h/projects/p/report" in text
    assert await states(database, "proj_abc") == [("mail", "sent", 1)]


async def test_a_mail_whose_sender_died_after_the_servers_answer_is_repeated_under_its_id(
    database: Database, smtp_inbox: SmtpServer
) -> None:
    mail = notifier(database, SMAP_SMTP_URL=smtp_inbox.url, SMAP_MAIL_FROM="s@x.vn", SMAP_MAIL_TO="a@x.vn")
    await mail.add("p")
    killed = asyncio.create_task(mail.send_due())
    await eventually(smtp_inbox.messages, "the server has it")
    killed.cancel()
    await asyncio.wait([killed])
    await make_due(database, "p", "mail")
    await mail.send_due()
    repeats = [got.message["Message-ID"] for got in smtp_inbox.messages()]
    assert set(repeats) == {f"<{envelope.derived_id('notice', 'p', 'mail')}@x.vn>"}
    assert 1 <= len(repeats) <= 2


async def test_a_webhook_is_signed_and_keeps_its_id_over_attempts(database: Database, hook: HttpReceiver) -> None:
    hook.answer = lambda got: HttpAnswer(503 if len(hook.requests) == 1 else 200, {})
    told = by_webhook(database, hook)
    await told.add("p")
    assert await told.send_due() == 1
    assert await told.send_due() == 0, "it waits before it tries again"
    await make_due(database, "p", "webhook")
    assert await told.send_due() == 1
    first, second = hook.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == envelope.derived_id("notice", "p", "webhook")
    data = Webhook(SECRET).verify(second.body, second.headers)["data"]
    assert data == {"project_id": "p", **COUNTS, "report_url": "http://h/projects/p/report"}
    assert await states(database, "p") == [("webhook", "sent", 2)]


async def test_a_receiver_that_wants_no_more_is_left_alone(database: Database, hook: HttpReceiver) -> None:
    hook.answer = lambda got: HttpAnswer(410, {})
    told = by_webhook(database, hook)
    await told.add("p")
    await told.send_due()
    assert await states(database, "p") == [("webhook", "given up", 1)]


async def test_it_gives_up_after_many_attempts(database: Database, hook: HttpReceiver) -> None:
    hook.answer = lambda got: HttpAnswer(500, {})
    told = by_webhook(database, hook)
    await told.add("p")
    past = datetime.now(UTC) - timedelta(hours=1)
    for _ in range(ATTEMPTS_MAX - 2):
        # As by a sender that died at once: an attempt, and nothing was sent.
        await database.rows("notice_claim", now=datetime.now(UTC), until=past, room=1)
    for _ in range(3):
        await told.send_due()
        await make_due(database, "p", "webhook")
    assert len(hook.requests) == 2
    assert await states(database, "p") == [("webhook", "given up", ATTEMPTS_MAX)]


async def test_two_senders_do_not_send_the_same(database: Database, hook: HttpReceiver) -> None:
    senders = [by_webhook(database, hook) for _ in range(4)]
    await senders[0].add("p")
    assert sum(await asyncio.gather(*(sender.send_due() for sender in senders))) == 1
    assert len(hook.requests) == 1


async def test_nobody_is_told_of_a_cancelled_project(database: Database, hook: HttpReceiver) -> None:
    told = by_webhook(database, hook)
    await told.add("cancelled")
    await told.send_due()
    assert hook.requests == []
    assert await states(database, "cancelled") == [("webhook", "given up", 1)], "nobody says that it was sent"


def test_a_receiver_that_is_away_for_a_weekend_is_told_afterwards() -> None:
    tried_s = sum(PAUSES.pause_s(attempts + 1) for attempts in range(1, ATTEMPTS_MAX))
    assert tried_s > timedelta(days=2, hours=14).total_seconds(), "from Friday evening to Monday morning"


async def test_zalo_renews_a_token_that_ran_out_and_keeps_the_new_one(database: Database, hook: HttpReceiver) -> None:
    def answer(got: HttpRequest) -> HttpAnswer:
        if got.path == "/v4/oa/access_token":
            assert got.headers["secret_key"] == "s3cret"
            return HttpAnswer(body={"access_token": "second", "refresh_token": "next"})
        ran_out = got.headers["access_token"] == "first"
        return HttpAnswer(body={"error": -216, "message": "Access token has expired"} if ran_out else {"error": 0})

    hook.answer = answer
    secrets = {
        "SMAP_ZALO_APP_ID": "app",
        "SMAP_ZALO_SECRET_KEY": "s3cret",
        "SMAP_ZALO_REFRESH_TOKEN": "once",
    }
    told = by_zalo(database, hook, **secrets)
    for project in ("p", "q"):
        await told.add(project)
        await told.send_due()
    asked, renewed, again, later = hook.requests
    assert (asked.path, asked.headers["access_token"]) == ("/v3.0/oa/message/cs", "first")
    assert renewed.form == {"refresh_token": "once", "app_id": "app", "grant_type": "refresh_token"}
    assert again.document["recipient"] == {"user_id": "186729651760683225"}
    assert "p" in again.document["message"]["text"]
    assert later.headers["access_token"] == "second"
    assert await states(database, "q") == [("zalo", "sent", 1)]


@pytest.mark.parametrize(("code", "state"), [(-32, "waiting"), (-213, "given up")])
async def test_zalos_refusals_are_told_apart(database: Database, hook: HttpReceiver, code: int, state: str) -> None:
    hook.answer = lambda got: HttpAnswer(200, {"error": code, "message": "no"})
    told = by_zalo(database, hook)
    await told.add("p")
    await told.send_due()
    assert await states(database, "p") == [("zalo", state, 1)]


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"SMAP_SMTP_URL": "smtp://h"}, "SMAP_MAIL_FROM"),
        ({"SMAP_MAIL_TO": "c@d"}, "SMAP_SMTP_URL"),
        ({"SMAP_MAIL_TO": "d", "SMAP_SMTP_URL": "smtp://h"}, "SMAP_MAIL_TO"),
        ({"SMAP_SMTP_URL": "http://h", "SMAP_MAIL_FROM": "a@b", "SMAP_MAIL_TO": "c@d"}, "SMAP_SMTP_URL"),
        ({"SMAP_SMTP_URL": "smtp://h", "SMAP_MAIL_FROM": "me", "SMAP_MAIL_TO": "c@d"}, "SMAP_MAIL_FROM"),
        ({"SMAP_SMTP_URL": "smtp://h:99999", "SMAP_MAIL_FROM": "a@b", "SMAP_MAIL_TO": "c@d"}, "SMAP_SMTP_URL"),
        ({"SMAP_WEBHOOK_URL": "http://[", "SMAP_WEBHOOK_SECRET": SECRET}, "SMAP_WEBHOOK_URL"),
        ({"SMAP_WEBHOOK_URL": "http://h"}, "SMAP_WEBHOOK_SECRET"),
        ({"SMAP_WEBHOOK_URL": "h", "SMAP_WEBHOOK_SECRET": SECRET}, "SMAP_WEBHOOK_URL"),
        ({"SMAP_WEBHOOK_URL": "http://h", "SMAP_WEBHOOK_SECRET": "whsec_%%%"}, "SMAP_WEBHOOK_SECRET"),
    ],
)
async def test_half_a_channel_is_refused_by_name(
    embedded: SmapSettings, environment: dict[str, str], named: str
) -> None:
    embedded.home.mkdir(exist_ok=True)
    async with open_database(embedded.engine_url) as database:
        with pytest.raises(CallerError, match=named):
            notifier(database, **environment)
