"""A webhook in the form of Standard Webhooks: signed, and with the same id in every attempt."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import httpx
from standardwebhooks.webhooks import Webhook

from headrace_smap.collector.crawlers.addresses import checked_place
from headrace_smap.collector.tasks import CrawlFailed, CrawlLater
from headrace_smap.insight.notices import NoticeRefused, OutgoingMessage
from headrace_smap.receivers import Receiver

TIMEOUT_S = 20.0
GONE = 410


class WebhookChannel:
    name = "webhook"

    def __init__(self, private: bool) -> None:
        self._private = private

    async def send(self, message: OutgoingMessage, receiver: Receiver) -> None:
        (url,) = receiver.addresses
        if receiver.name:
            await self._check(url)
        now = datetime.now(UTC)
        document = {"type": message.kind, "timestamp": now.isoformat(), "data": message.data}
        body = json.dumps(document, ensure_ascii=False)
        headers = {
            "content-type": "application/json",
            "webhook-id": message.id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(receiver.secret).sign(message.id, now, body),
        }
        async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
            answer = await client.post(url, content=body.encode(), headers=headers)
        if answer.status_code == GONE:
            raise NoticeRefused("the receiver answers 410: it wants no more")
        if not answer.is_success:
            raise ConnectionError(f"the receiver answers {answer.status_code}")

    async def _check(self, url: str) -> None:
        """Whoever orders a project must not reach through us what only we can reach."""
        try:
            await checked_place(url, self._private)
        except CrawlFailed:
            raise NoticeRefused("the webhook leads to no public address (SMAP_WEBHOOK_PRIVATE=1 allows it)") from None
        except CrawlLater:
            raise ConnectionError("the host of the webhook cannot be resolved") from None
