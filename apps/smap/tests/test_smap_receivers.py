"""A project says who is told of it; what it does not say the settings do, and no secret is ever shown."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from smap_office import EXAMPLE, Office, open_office

from headrace.ports import Delivery, Event
from headrace.testing import HttpAnswer, HttpReceiver
from headrace.testing.rig.smtp import SmtpServer
from headrace_smap.insight.service import InsightService
from headrace_smap.project.orders import AcceptedOrder
from headrace_smap.settings import SmapSettings

KEY = base64.b64encode(b"s" * 24).decode()
SECRET = f"whsec_{KEY}"
HOOK = "https://hooks.example.com/services/T0KEN"
MASKED = {"url": "https://hooks.example.com/…", "secret": "set"}


@pytest.fixture(params=["sqlite", "postgres"])
async def office(request: pytest.FixtureRequest, embedded: SmapSettings) -> AsyncIterator[Office]:
    settings = embedded
    if request.param == "postgres":
        settings = replace(embedded, pg_dsn=request.getfixturevalue("smap_database"))
    async with open_office(settings) as opened:
        yield opened


def webhook(url: str = HOOK) -> dict[str, Any]:
    return {"webhook": [{"url": url, "secret": SECRET}]}


async def tell(office: Office, project: str, **environment: str) -> list[tuple[str, str, str]]:
    """The end of a project as insight tells it; channel, receiver and state of each notice."""
    known = office.parts.settings
    settings = replace(known, environment={**known.environment, "SMAP_WEBHOOK_PRIVATE": "1", **environment})
    await office.crawl(project, ["raw/1.json"])
    notifier = InsightService(replace(office.parts, settings=settings)).notifier
    body = json.dumps({"project_id": project}).encode()
    await notifier.handle([Delivery("smap.notification", 1, 1, Event("e", "job.completed", body))])
    await notifier.send_due()
    rows = await office.parts.database.rows("notice_list", project=project)
    return [(channel, name, state) for channel, name, _, state, *_ in rows]


async def test_receivers_are_kept_and_shown_without_their_secrets(office: Office) -> None:
    named = {"mail": ["an@x.vn"], "zalo": ["186729651760683225"], **webhook()}
    project = await office.make(receivers=named)
    shown = (await office.client.get(f"/projects/{project}")).json()["receivers"]
    assert shown == {"mail": ["an@x.vn"], "zalo": ["186729651760683225"], "webhook": [MASKED]}
    await office.desk.relay.relay()
    everything = [await office.client.get(path) for path in (f"/projects/{project}", "/projects")]
    told = "".join(each.text for each in everything) + str(await office.events())
    assert KEY not in told
    assert "T0KEN" not in told
    assert "an@x.vn" not in str(await office.events()), "events are for every service"


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"mail": ["an"]}, "write an address such as an@x.vn"),
        ({"mail": ["a@x.vn\r\nBcc: all@x.vn"]}, "write an address such as an@x.vn"),
        ({"mail": ["a@x.vn, b@x.vn"]}, "write an address such as an@x.vn"),
        ({"mail": ["a@x.vn"] * 21}, "20"),
        ({"zalo": ["an"]}, "digits"),
        ({"webhook": [{"url": "ftp://SECRETS", "secret": SECRET}]}, "write https://host/path"),
        ({"webhook": [{"url": "https://u:SECRETS@h/", "secret": SECRET}]}, "write https://host/path"),
        ({"webhook": [{"url": "https://h/", "secret": "SECRETS"}]}, "whsec_"),
        ({"webhook": [{"url": "https://h/"}]}, "secret"),
        ({"sms": ["1"]}, "sms"),
    ],
)
async def test_what_cannot_be_a_receiver_is_refused(office: Office, named: dict[str, Any], words: str) -> None:
    project = await office.make()
    for answer in (
        await office.client.post("/projects", json={**EXAMPLE, "receivers": named}),
        await office.client.patch(f"/projects/{project}", json={"receivers": named}),
    ):
        assert answer.status_code == 422, answer.text
        assert words in answer.text
        assert "SECRETS" not in answer.text
    assert (await office.client.get(f"/projects/{project}")).json()["receivers"] is None


async def test_receivers_are_changed_and_given_back_to_the_settings(office: Office) -> None:
    project = await office.make(receivers={"mail": ["an@x.vn"]})
    changed = await office.client.patch(f"/projects/{project}", json={"receivers": {"mail": ["binh@x.vn"]}})
    assert (changed.status_code, changed.json()["receivers"]) == (200, {"mail": ["binh@x.vn"]})
    assert (await office.client.patch(f"/projects/{project}", json={"receivers": None})).json()["receivers"] is None
    assert (await office.client.patch("/projects/nobody", json={"receivers": None})).status_code == 404
    assert (await office.client.patch(f"/projects/{project}", json={})).status_code == 422
    assert (await office.client.patch(f"/projects/{project}", json={"keywords": ["x"]})).status_code == 422


async def test_a_kind_that_is_named_goes_there_and_others_to_those_of_the_settings(
    office: Office, hook: HttpReceiver, smtp_inbox: SmtpServer
) -> None:
    project = await office.make(receivers={"mail": ["an@x.vn", "binh@x.vn"], "zalo": []})
    states = await tell(
        office,
        project,
        SMAP_SMTP_URL=smtp_inbox.url,
        SMAP_MAIL_FROM="s@x.vn",
        SMAP_MAIL_TO="default@x.vn",
        SMAP_WEBHOOK_URL=hook.url,
        SMAP_WEBHOOK_SECRET=SECRET,
        SMAP_ZALO_USER_ID="1",
    )
    assert states == [("mail", "an@x.vn", "sent"), ("mail", "binh@x.vn", "sent"), ("webhook", "", "sent")]
    got = {message.recipients: message.message["Message-ID"] for message in smtp_inbox.messages()}
    assert set(got) == {("an@x.vn",), ("binh@x.vn",)}
    assert len(set(got.values())) == 2
    assert len(hook.requests) == 1


async def test_a_webhook_of_a_project_is_signed_by_its_own_secret(office: Office, hook: HttpReceiver) -> None:
    from standardwebhooks.webhooks import Webhook

    project = await office.make(receivers=webhook(f"{hook.url}/hook"))
    ((channel, name, state),) = await tell(office, project)
    assert (channel, state) == ("webhook", "sent")
    assert name.startswith(f"{hook.url} ")
    assert Webhook(SECRET).verify(hook.requests[0].body, hook.requests[0].headers)["data"]["project_id"] == project


async def test_a_webhook_of_a_project_leads_to_no_private_network(office: Office, hook: HttpReceiver) -> None:
    project = await office.make(receivers=webhook(f"{hook.url}/hook"))
    assert [state for *_, state in await tell(office, project, SMAP_WEBHOOK_PRIVATE="0")] == ["given up"]
    ((*_, error, _, _),) = await office.parts.database.rows("notice_list", project=project)
    assert "leads to no public address" in error
    assert hook.requests == []


async def test_who_is_taken_off_gets_nothing_that_still_waits(office: Office, hook: HttpReceiver) -> None:
    hook.answer = lambda got: HttpAnswer(503, {})
    project = await office.make(receivers=webhook(f"{hook.url}/hook"))
    assert [state for *_, state in await tell(office, project)] == ["waiting"]
    await office.client.patch(f"/projects/{project}", json={"receivers": {"webhook": []}})
    ((_, _, notice, *_),) = await office.parts.database.rows("notice_list", project=project)
    past = office.calendar.now
    await office.parts.database.rows("notice_failed", notice=notice, state="waiting", due=past, error="")
    assert [state for *_, state in await tell(office, project)] == ["given up"]
    assert len(hook.requests) == 1


async def test_mail_without_a_server_says_so(office: Office) -> None:
    project = await office.make(receivers={"mail": ["an@x.vn"]})
    assert await tell(office, project) == [("mail", "an@x.vn", "given up")]
    ((*_, error, _, _),) = await office.parts.database.rows("notice_list", project=project)
    assert "SMAP_SMTP_URL is not set" in error


async def test_a_crawl_of_a_schedule_tells_those_of_its_parent(office: Office) -> None:
    parent = await office.make(receivers={"mail": ["an@x.vn"]})
    await office.desk.creator.create_crawl("child", AcceptedOrder(["VF3"], [], parent=parent))
    shown = (await office.client.get("/projects/child")).json()
    assert (shown["parent"], shown["receivers"]) == (parent, {"mail": ["an@x.vn"]})


async def test_a_project_that_is_deleted_takes_its_receivers_along(office: Office) -> None:
    project = await office.make(receivers=webhook())
    assert await office.desk.deleter.delete(project)
    await office.desk.deleter.sweep()
    assert await office.parts.database.rows("receivers_get", project=project) == []


def test_operators_name_receivers_and_see_no_secret(
    tmp_path: Path, headrace_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    run = partial(headrace_command, SMAP_HOME=str(tmp_path / "smap"), SMAP_SIMULATED="1")
    made = run("smap", "create", "VF3", "--days", "2025-01-01..2025-01-01", "--mail", "an@x.vn", "--name", "Tháng 1")
    project = made.stdout.strip()
    assert run("smap", "receivers", project).stdout.strip() == "mail: an@x.vn"
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    named = ("--webhook", HOOK, "--webhook-secret-file", str(secret))
    changed = run("--json", "smap", "receivers", project, *named)
    assert msgspec.json.decode(changed.stdout)["receivers"] == {"webhook": [MASKED]}
    refused = run("smap", "receivers", project, "--mail", "an")
    assert refused.returncode != 0
    assert "write an address such as an@x.vn" in refused.stderr
    assert run("smap", "receivers", project, "--settings").stdout.strip() == "those of the settings"
