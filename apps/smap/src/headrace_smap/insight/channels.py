"""The ways to tell people: e-mail, webhook, Zalo. A way is open if its settings are there; without any it is quiet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import CallerError
from headrace.services import Sources, read, setting
from headrace_smap.database import Database
from headrace_smap.insight.notices import Channel
from headrace_smap.settings import PREFIX


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """Settings of the insight service."""

    public_url: str = setting(
        "", "where people reach the insight service", without="where `SMAP_REPORT_URL` or `up` says that reports are"
    )
    smtp_url: str = setting(
        "",
        "e-mail: `smtp://user:password@host:port`, `smtps://` for TLS from the start, `smtp+tls://` for STARTTLS",
        secret=True,
    )
    mail_from: str = setting("", "the sender's address")
    mail_to: str = setting("", "addresses, several separated by commas")
    webhook_url: str = setting("", "a webhook in the form of Standard Webhooks", secret=True)
    webhook_secret: str = setting("", "its secret, which begins with `whsec_`", secret=True)
    zalo_user_id: str = setting("", "a follower of the Zalo Official Account")
    zalo_access_token: str = setting("", "the token of the Official Account", secret=True)
    zalo_app_id: str = setting("", "with the next two: renews a token that ran out")
    zalo_secret_key: str = setting("", "the key of the app", secret=True)
    zalo_refresh_token: str = setting("", "good for one use; its successors are kept in the database", secret=True)
    zalo_api_url: str = setting("https://openapi.zalo.me", "another server than Zalo's")
    zalo_oauth_url: str = setting("https://oauth.zaloapp.com", "another server than Zalo's")

    @staticmethod
    def read(environment: Mapping[str, str]) -> NotificationSettings:
        return read(NotificationSettings, Sources(PREFIX, environment))


def channels(environment: Mapping[str, str], database: Database) -> list[Channel]:
    """All that are set up; one that is set up by half is refused by name."""
    settings, found = NotificationSettings.read(environment), list[Channel]()
    if settings.smtp_url:
        from headrace_smap.insight.mail import MailChannel

        _needed("SMAP_SMTP_URL", SMAP_MAIL_FROM=settings.mail_from, SMAP_MAIL_TO=settings.mail_to)
        found.append(MailChannel(settings.smtp_url, settings.mail_from, settings.mail_to))
    if settings.webhook_url:
        from headrace_smap.insight.webhook import WebhookChannel

        _needed("SMAP_WEBHOOK_URL", SMAP_WEBHOOK_SECRET=settings.webhook_secret)
        found.append(WebhookChannel(settings.webhook_url, settings.webhook_secret))
    if settings.zalo_user_id:
        from headrace_smap.insight.zalo import ZaloChannel

        found.append(ZaloChannel(settings, database))
    return found


def _needed(because: str, **values: str) -> None:
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise CallerError(f"{because} is set but {' and '.join(missing)} is not", f"set it, or unset {because}")
