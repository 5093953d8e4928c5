"""People are told of the real end, with its counts, whoever has announced whatever before."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from smap_receivers import Receiver, receiver

from headrace.ports import Delivery, Event
from headrace.testing.rig.smtp import SmtpServer
from headrace_smap import envelope
from headrace_smap.count.accountant import Accountant, ItemEnd
from headrace_smap.count.completions import Completions
from headrace_smap.insight.notices import ROOM, Notifier
from headrace_smap.insight.service import InsightService
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.settings import SmapSettings

WEBHOOK = {"SMAP_WEBHOOK_SECRET": f"whsec_{base64.b64encode(b'k' * 24).decode()}"}
NOW = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Office:
    """An insight service that tells by webhook, and what the receiver got."""

    parts: SmapParts
    notifier: Notifier
    hook: Receiver

    @property
    def told(self) -> list[dict[str, object]]:
        return [got.document["data"] for got in self.hook.got]

    async def hear(self, project: str, **fields: object) -> int:
        """A foreign `job.completed`; how many notices were due after it."""
        await self.notifier.handle([completed(project, **fields)])
        return await self.notifier.send_due()


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
async def office(request: pytest.FixtureRequest, embedded: SmapSettings, hook: Receiver) -> AsyncIterator[Office]:
    settings = replace(embedded, environment={**embedded.environment, **WEBHOOK, "SMAP_WEBHOOK_URL": hook.url})
    if request.param == "postgres":
        settings = replace(settings, pg_dsn=request.getfixturevalue("postgres_database"))
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
    ((_, _, state, attempts, _, _),) = await office.parts.database.rows("notice_list", project=project)
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
    assert office.hook.got[0].headers["webhook-id"] == envelope.derived_id("notice", "p", "webhook")
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
    embedded: SmapSettings, hook: Receiver, smtp_inbox: SmtpServer
) -> None:
    mail = {"SMAP_SMTP_URL": smtp_inbox.url, "SMAP_MAIL_FROM": "s@x.vn", "SMAP_MAIL_TO": "a@x.vn"}
    zalo = {"SMAP_ZALO_USER_ID": "1", "SMAP_ZALO_ACCESS_TOKEN": "t", "SMAP_ZALO_API_URL": hook.url}
    async with open_parts(replace(embedded, environment={**embedded.environment, **mail, **zalo})) as parts:
        notifier = InsightService(parts).notifier
        await notifier.handle([completed("p")])
        assert await notifier.send_due() == 2
    (letter,), (message,) = smtp_inbox.messages(), hook.got
    text = "Dự án p đã phân tích xong.\nProject p is analysed."
    assert message.document["message"]["text"] == text
    assert letter.message.get_content().splitlines() == text.splitlines()


async def test_nobody_is_told_of_what_was_cancelled_or_deleted_before_its_end(office: Office) -> None:
    accountant = await open_crawl(office)
    assert await accountant.cancel("p")
    await office.parts.database.rows("truth_open", project="gone", now=NOW)
    await accountant.forget("gone")
    for project in ("p", "gone"):
        await office.hear(project)
        assert await state(office, project) == ("sent", 1), "there is nothing to wait for"
    assert office.told == []
