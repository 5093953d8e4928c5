"""The ways to tell people: e-mail, webhook, Zalo. A way is open if its settings are there; without any it is quiet.

SMAP_SMTP_URL=smtp://user:password@host:port   (smtps:// for TLS from the start, smtp+tls:// for STARTTLS)
SMAP_MAIL_FROM, SMAP_MAIL_TO                   addresses, several separated by commas
SMAP_WEBHOOK_URL, SMAP_WEBHOOK_SECRET          Standard Webhooks; a secret begins with whsec_
SMAP_ZALO_USER_ID, SMAP_ZALO_ACCESS_TOKEN      a follower of the Official Account
SMAP_ZALO_APP_ID, SMAP_ZALO_SECRET_KEY, SMAP_ZALO_REFRESH_TOKEN   to renew a token that ran out
SMAP_PUBLIC_URL                                where people reach the insight service
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import CallerError
from headrace_smap.database import Database
from headrace_smap.insight.notifying import Channel


def channels(environment: Mapping[str, str], database: Database) -> list[Channel]:
    """All that are set up; one that is set up by half is refused by name."""
    found: list[Channel] = []
    if environment.get("SMAP_SMTP_URL"):
        from headrace_smap.insight.mail import MailChannel

        sender, receivers = _needed(environment, "SMAP_SMTP_URL", "SMAP_MAIL_FROM", "SMAP_MAIL_TO")
        found.append(MailChannel(environment["SMAP_SMTP_URL"], sender, receivers))
    if environment.get("SMAP_WEBHOOK_URL"):
        from headrace_smap.insight.webhook import WebhookChannel

        (secret,) = _needed(environment, "SMAP_WEBHOOK_URL", "SMAP_WEBHOOK_SECRET")
        found.append(WebhookChannel(environment["SMAP_WEBHOOK_URL"], secret))
    if environment.get("SMAP_ZALO_USER_ID"):
        from headrace_smap.insight.zalo import ZaloChannel

        found.append(ZaloChannel(environment, database))
    return found


def _needed(environment: Mapping[str, str], because: str, *names: str) -> tuple[str, ...]:
    missing = [name for name in names if not environment.get(name)]
    if missing:
        raise CallerError(f"{because} is set but {' and '.join(missing)} is not", f"set it, or unset {because}")
    return tuple(environment[name] for name in names)
