"""The ways to tell people: e-mail, webhook, Zalo. Whom they reach is said by projects, and else by the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import getaddresses

from headrace.errors import CallerError
from headrace.services import Sources, read, setting
from headrace_smap.database import Database
from headrace_smap.insight.alerts import read_level
from headrace_smap.insight.notices import Channel
from headrace_smap.insight.words import is_web_address
from headrace_smap.receivers import MAIL, WEBHOOK, ZALO, Receiver
from headrace_smap.settings import PREFIX


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """Settings of the insight service."""

    alert_risk: str = setting(
        "HIGH", "posts of this risk or more are told during the crawl: HIGH, CRITICAL or off", parse=read_level
    )
    alert_interval_s: float = setting(
        300.0, "at most one message of alerts for a project in so long; what comes meanwhile is one digest", low=0.0
    )
    public_url: str = setting(
        "", "where people reach the insight service", without="where `SMAP_REPORT_URL` or `up` says that reports are"
    )
    smtp_url: str = setting(
        "",
        "e-mail: `smtp://user:password@host:port`, `smtps://` for TLS from the start, `smtp+tls://` for STARTTLS",
        secret=True,
    )
    mail_from: str = setting("", "the sender's address")
    mail_to: str = setting("", "addresses, several separated by commas, for projects that name none")
    webhook_url: str = setting(
        "", "a webhook in the form of Standard Webhooks, for projects that name none", secret=True
    )
    webhook_secret: str = setting("", "its secret, which begins with `whsec_`", secret=True)
    webhook_private: bool = setting(
        False, "1: webhooks that projects name may lead to this machine and to private networks"
    )
    zalo_user_id: str = setting("", "a follower of the Zalo Official Account, for projects that name none")
    zalo_access_token: str = setting("", "the token of the Official Account", secret=True)
    zalo_app_id: str = setting("", "with the next two: renews a token that ran out")
    zalo_secret_key: str = setting("", "the key of the app", secret=True)
    zalo_refresh_token: str = setting("", "good for one use; its successors are kept in the database", secret=True)
    zalo_api_url: str = setting("https://openapi.zalo.me", "another server than Zalo's")
    zalo_oauth_url: str = setting("https://oauth.zaloapp.com", "another server than Zalo's")

    @staticmethod
    def read(environment: Mapping[str, str]) -> NotificationSettings:
        return read(NotificationSettings, Sources(PREFIX, environment))


def channels(settings: NotificationSettings, database: Database) -> list[Channel]:
    """All that can be used; one that is set up by half is refused by name. A webhook needs nothing but its receiver,
    and the tokens of Zalo may be in the database."""
    from headrace_smap.insight.webhook import WebhookChannel
    from headrace_smap.insight.zalo import ZaloChannel

    found: list[Channel] = [WebhookChannel(settings.webhook_private), ZaloChannel(settings, database)]
    if settings.smtp_url:
        from headrace_smap.insight.mail import MailChannel

        _needed("SMAP_SMTP_URL", SMAP_MAIL_FROM=settings.mail_from)
        found.append(MailChannel(settings.smtp_url, settings.mail_from))
    return found


def default_receivers(settings: NotificationSettings) -> list[Receiver]:
    """Who is told of projects that name nobody of a kind."""
    found = []
    if settings.mail_to:
        _needed("SMAP_MAIL_TO", SMAP_SMTP_URL=settings.smtp_url)
        found.append(Receiver(MAIL, addresses_of("SMAP_MAIL_TO", settings.mail_to)))
    if settings.webhook_url:
        _needed("SMAP_WEBHOOK_URL", SMAP_WEBHOOK_SECRET=settings.webhook_secret)
        found.append(_webhook(settings))
    if settings.zalo_user_id:
        found.append(Receiver(ZALO, (settings.zalo_user_id,)))
    return found


def addresses_of(name: str, text: str) -> tuple[str, ...]:
    found = tuple(address for _, address in getaddresses([text]) if "@" in address)
    if not found:
        raise CallerError(f"{name} names no address")
    return found


def _webhook(settings: NotificationSettings) -> Receiver:
    from standardwebhooks.webhooks import Webhook

    if not is_web_address(settings.webhook_url):
        raise CallerError("SMAP_WEBHOOK_URL is no http(s) URL")
    try:
        Webhook(settings.webhook_secret)
    except Exception:
        # Whatever the library says of it, the text of a secret stays out of messages.
        raise CallerError("SMAP_WEBHOOK_SECRET is not whsec_ and a Base64 text") from None
    return Receiver(WEBHOOK, (settings.webhook_url,), secret=settings.webhook_secret)


def _needed(because: str, **values: str) -> None:
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise CallerError(f"{because} is set but {' and '.join(missing)} is not", f"set it, or unset {because}")
