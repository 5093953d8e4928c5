"""A mail server that delivers nothing: what it accepts it keeps, for the test to look at.

It is a process of its own (`smtp_sink`), so that it can be killed and frozen like any other server, and a mail that it
has answered with 250 is on disk.
"""

from __future__ import annotations

import json
import re
import smtplib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import ClassVar

from headrace.core.errors import CallerError
from headrace.testing.rig.needs import PythonWheel
from headrace.testing.rig.server import Server

ANSWER_S_MAX = 5.0
SETTINGS = ("refuse", "busy_first", "delay_s", "user", "password")


@dataclass(frozen=True, slots=True)
class Mail:
    """One accepted mail: the envelope as the client gave it, and the message."""

    sender: str
    recipients: tuple[str, ...]
    received_at: datetime
    message: EmailMessage


class SmtpServer(Server):
    """Settings are its behaviour from this start on.

    `refuse`: recipients that match this pattern get 550. `busy_first`: so many mails get 451 before the first is
    accepted. `delay_s`: a mail is kept, and its 250 comes so much later. `user` and `password`: nothing without AUTH.
    """

    name: ClassVar[str] = "smtp"
    needs = (PythonWheel("aiosmtpd", "1.4.6", "aiosmtpd"),)

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    @property
    def _mails(self) -> Path:
        return self.home / "mails"

    def prepare(self) -> None:
        self._mails.mkdir()

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        orders = {**_checked(settings), "port": self.port, "mails": str(self._mails)}
        path = self.write("sink.json", json.dumps(orders))
        # aiosmtpd warns of things to come as it is imported, which is not for the reader of a test's log. -P: nothing
        # in its home is to be mistaken for a module.
        return [sys.executable, "-P", "-W", "ignore", "-m", "headrace.testing.rig.smtp_sink", str(path)]

    def environment(self) -> dict[str, str]:
        # It finds what we find, however this process came by its modules.
        return {**super().environment(), "PYTHONPATH": ":".join(path for path in sys.path if path)}

    def ask(self) -> None:
        with smtplib.SMTP("127.0.0.1", self.port, "localhost", ANSWER_S_MAX) as client:
            client.noop()

    def messages(self) -> list[Mail]:
        """All mails that were accepted since `empty`, the oldest first. One on its way in has a hidden name."""
        return [_mail(path) for path in sorted(self._mails.glob("[!.]*.eml"))]

    def empty(self) -> None:
        """Forget the mails."""
        for path in self._mails.glob("[!.]*.eml"):
            path.unlink(missing_ok=True)
            path.with_suffix(".json").unlink(missing_ok=True)


def _checked(settings: Mapping[str, str]) -> dict[str, str | int | float]:
    """The settings as the sink reads them, or what is wrong with them."""
    for name in settings:
        if name not in SETTINGS:
            raise CallerError(f"the mail server has no setting {name!r}", f"it has: {', '.join(SETTINGS)}")
    if ("user" in settings) is not ("password" in settings):
        raise CallerError("a user needs a password and a password a user")
    try:
        re.compile(settings.get("refuse", ""))
        numbers = {"busy_first": int(settings.get("busy_first", 0)), "delay_s": float(settings.get("delay_s", 0))}
    except (re.error, ValueError) as error:
        raise CallerError(f"a setting of the mail server cannot be read: {error}") from error
    return {**settings, **numbers}


def _mail(path: Path) -> Mail:
    envelope = json.loads(path.with_suffix(".json").read_text())
    # On the wire a line ends with two characters; the email package means one.
    content = path.read_bytes().replace(b"\r\n", b"\n")
    message = message_from_bytes(content, EmailMessage, policy=policy.default)
    at = datetime.fromtimestamp(envelope["received_at"], UTC)
    return Mail(envelope["sender"], tuple(envelope["recipients"]), at, message)
