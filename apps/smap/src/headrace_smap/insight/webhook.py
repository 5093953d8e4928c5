"""A webhook in the form of Standard Webhooks: signed, and with the same id in every attempt."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import httpx
from standardwebhooks.webhooks import Webhook

from headrace.errors import CallerError
from headrace_smap.envelope import JOB_COMPLETED
from headrace_smap.insight.notices import Notice, NoticeRefused
from headrace_smap.insight.words import is_web_address

TIMEOUT_S = 20.0
GONE = 410


class WebhookChannel:
    name = "webhook"

    def __init__(self, url: str, secret: str) -> None:
        if not is_web_address(url):
            raise CallerError("SMAP_WEBHOOK_URL is no http(s) URL")
        try:
            self._signer = Webhook(secret)
        except Exception:
            # Whatever the library says of it, the text of a secret stays out of messages.
            raise CallerError("SMAP_WEBHOOK_SECRET is not whsec_ and a Base64 text") from None
        self._url = url

    async def send(self, notice: Notice) -> None:
        now = datetime.now(UTC)
        data = {"project_id": notice.project, **notice.counts, "report_url": notice.report_url, **_more(notice)}
        body = json.dumps({"type": JOB_COMPLETED, "timestamp": now.isoformat(), "data": data}, ensure_ascii=False)
        headers = {
            "content-type": "application/json",
            "webhook-id": notice.id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._signer.sign(notice.id, now, body),
        }
        async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
            answer = await client.post(self._url, content=body.encode(), headers=headers)
        if answer.status_code == GONE:
            raise NoticeRefused("the receiver answers 410: it wants no more")
        if not answer.is_success:
            raise ConnectionError(f"the receiver answers {answer.status_code}")


def _more(notice: Notice) -> dict[str, object]:
    """What is known beside the counts."""
    more: dict[str, object] = {"name": notice.name} if notice.name else {}
    if notice.summary is not None and notice.summary.posts:
        summary = notice.summary
        more["shares"] = {name: round(share, 4) for name, share in summary.shares.items()}
        more |= {"spam": summary.spam, "simulated": summary.simulated}
        if summary.risk is not None:
            more["risk"] = {level: summary.risk[level] for level in ("HIGH", "CRITICAL")}
    return more
