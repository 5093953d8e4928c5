"""E-mail by SMTP. Every attempt carries the same Message-ID, so a mailbox can show a repeat once."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate
from urllib.parse import unquote, urlsplit

from headrace.errors import CallerError
from headrace_smap.insight.channels import addresses_of
from headrace_smap.insight.notices import NoticeRefused, OutgoingMessage
from headrace_smap.receivers import Receiver

SCHEMES = ("smtp", "smtps", "smtp+tls")
TIMEOUT_S = 30.0


class MailChannel:
    name = "mail"

    def __init__(self, url: str, sender: str) -> None:
        self._sender = addresses_of("SMAP_MAIL_FROM", sender)[0]
        try:
            self._place = urlsplit(url)
            wrong = self._place.scheme not in SCHEMES or not self._place.hostname or self._place.port == 0
        except ValueError:
            wrong = True
        if wrong:
            raise CallerError("SMAP_SMTP_URL does not name a mail server", "smtp://user:password@host:port")

    async def send(self, message: OutgoingMessage, receiver: Receiver) -> None:
        try:
            await asyncio.to_thread(self._deliver, self._letter(message, receiver))
        except (smtplib.SMTPRecipientsRefused, smtplib.SMTPSenderRefused, smtplib.SMTPDataError) as error:
            if _is_final(error):
                raise NoticeRefused(str(error)) from None
            raise

    def _letter(self, message: OutgoingMessage, receiver: Receiver) -> EmailMessage:
        letter = EmailMessage()
        letter["Subject"] = message.subject
        letter["From"], letter["To"] = self._sender, ", ".join(receiver.addresses)
        letter["Date"] = formatdate()
        letter["Message-ID"] = f"<{message.id}@{self._sender.rpartition('@')[2]}>"
        letter["Auto-Submitted"] = "auto-generated"
        letter.set_content(message.text)
        return letter

    def _deliver(self, letter: EmailMessage) -> None:
        place, host = self._place, self._place.hostname or ""
        if place.scheme == "smtps":
            context = ssl.create_default_context()
            client: smtplib.SMTP = smtplib.SMTP_SSL(host, place.port or 465, timeout=TIMEOUT_S, context=context)
        else:
            client = smtplib.SMTP(host, place.port or (587 if place.scheme == "smtp+tls" else 25), timeout=TIMEOUT_S)
        with client:
            if place.scheme == "smtp+tls":
                client.starttls(context=ssl.create_default_context())
            if place.username:
                client.login(unquote(place.username), unquote(place.password or ""))
            client.send_message(letter)


def _is_final(error: smtplib.SMTPException) -> bool:
    """Whether the server said never, to the sender, the text or every receiver; 4xx means not now."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(code >= 500 for code, _ in error.recipients.values())
    return isinstance(error, smtplib.SMTPResponseException) and error.smtp_code >= 500
