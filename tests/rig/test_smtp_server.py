"""The mail server: it keeps what it accepts, and misbehaves on request."""

from __future__ import annotations

import smtplib
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage

import pytest

from headrace.core.errors import CallerError
from headrace.testing.rig.smtp import SmtpServer

CLIENT_S_MAX = 60.0


@pytest.fixture(scope="module")
def running() -> Iterator[SmtpServer]:
    with SmtpServer() as started:
        yield started


@pytest.fixture
def server(running: SmtpServer) -> SmtpServer:
    running.empty()
    return running


def client_of(server: SmtpServer) -> smtplib.SMTP:
    return smtplib.SMTP("127.0.0.1", server.port, "localhost", CLIENT_S_MAX)


def mail(subject: str, recipients: str = "ops@example.org") -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "headrace@example.org", recipients, subject
    message["Message-ID"] = f"<{len(subject)}@example.org>"
    message.set_content("Chín mục đã hỏng.\n.\n..a line that begins with dots\n")
    return message


def subjects(server: SmtpServer) -> list[str]:
    return [str(each.message["Subject"]) for each in server.messages()]


def test_a_mail_is_kept_with_its_envelope(server: SmtpServer) -> None:
    with client_of(server) as client:
        client.send_message(mail("Trạm dừng 1"), "bounces@example.org", ["ops@example.org", "hidden@example.org"])
        client.send_message(mail("2"))
    first, second = server.messages()
    assert (first.sender, first.recipients) == ("bounces@example.org", ("ops@example.org", "hidden@example.org"))
    assert timedelta() <= datetime.now(UTC) - first.received_at < timedelta(seconds=60)
    assert first.message["Subject"] == "Trạm dừng 1"
    assert first.message["To"] == "ops@example.org"
    assert first.message.get_content() == mail("").get_content()
    assert (second.recipients, second.message["Subject"]) == (("ops@example.org",), "2")
    server.empty()
    assert server.messages() == []


def test_an_accepted_mail_survives_a_kill(server: SmtpServer) -> None:
    with client_of(server) as client:
        for number in range(20):
            client.send_message(mail(str(number)))
        server.kill()
    server.start()
    assert subjects(server) == [str(number) for number in range(20)]


def test_a_recipient_can_be_refused_for_good() -> None:
    with SmtpServer({"refuse": "^nobody@"}) as server, client_of(server) as client:
        refused = client.send_message(mail("half"), to_addrs=["nobody@example.org", "ops@example.org"])
        assert refused["nobody@example.org"][0] == 550
        assert [each.recipients for each in server.messages()] == [("ops@example.org",)]
        with pytest.raises(smtplib.SMTPRecipientsRefused):
            client.send_message(mail("none"), to_addrs=["nobody@example.org"])
        assert subjects(server) == ["half"]


def test_the_first_mails_can_be_put_off_and_the_answer_can_come_late(server: SmtpServer) -> None:
    server.stop()
    server.start({"busy_first": "2", "delay_s": "0.4"})
    with client_of(server) as client:
        for _ in range(2):
            with pytest.raises(smtplib.SMTPDataError) as caught:
                client.send_message(mail("later"))
            assert caught.value.smtp_code == 451
        assert server.messages() == []
        before = time.monotonic()
        client.send_message(mail("now"))
        assert time.monotonic() - before >= 0.4
    assert subjects(server) == ["now"]
    server.restart()


def test_a_client_that_did_not_wait_for_the_answer_has_sent_the_mail_all_the_same(server: SmtpServer) -> None:
    server.stop()
    server.start({"delay_s": "30"})
    with client_of(server) as client:
        assert client.sock is not None
        client.sock.settimeout(2.0)
        with pytest.raises(OSError, match="timed out"):
            client.send_message(mail("kept"))
    assert subjects(server) == ["kept"]
    server.restart()


def test_with_a_user_nothing_goes_without_the_password() -> None:
    with SmtpServer({"user": "headrace", "password": "a b"}) as server:
        with client_of(server) as client, pytest.raises(smtplib.SMTPSenderRefused):
            client.send_message(mail("without"))
        with client_of(server) as client, pytest.raises(smtplib.SMTPAuthenticationError):
            client.login("headrace", "wrong")
        with client_of(server) as client:
            client.login("headrace", "a b")
            client.send_message(mail("with"))
        assert subjects(server) == ["with"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"nonsense": "1"}, "no setting 'nonsense'"), ({"refuse": "("}, "cannot be read"), ({"user": "x"}, "password")],
)
def test_a_setting_it_does_not_have_is_refused(server: SmtpServer, settings: dict[str, str], words: str) -> None:
    server.stop()
    try:
        with pytest.raises(CallerError, match=words):
            server.start(settings)
    finally:
        server.start()


def test_whoever_uses_it_does_not_import_what_warns() -> None:
    program = "import sys, headrace.testing.rig.smtp; sys.exit('aiosmtpd' in sys.modules)"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=120)
