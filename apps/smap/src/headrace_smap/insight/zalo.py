"""A message of a Zalo Official Account to one of its followers.

An access token lives for about a day. It is renewed by the refresh token, which is good for one use: its successor is
kept in the database before the new access token is used, so that a crash does not lock us out.
"""

from __future__ import annotations

from typing import Any

import httpx

from headrace_smap.database import Database
from headrace_smap.insight.channels import NotificationSettings
from headrace_smap.insight.notices import NoticeRefused, OutgoingMessage
from headrace_smap.receivers import Receiver

TIMEOUT_S = 20.0
TEXT_CHARS_MAX = 2_000
"""Zalo takes no more."""
TOKEN_RAN_OUT = frozenset((-216, -220, -124))
NOT_NOW = frozenset((-32, -200, -500))
ACCESS, REFRESH = "zalo_access_token", "zalo_refresh_token"


class ZaloChannel:
    name = "zalo"

    def __init__(self, settings: NotificationSettings, database: Database) -> None:
        self._settings, self._database = settings, database

    async def send(self, message: OutgoingMessage, receiver: Receiver) -> None:
        async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
            token = await self._kept(ACCESS) or self._settings.zalo_access_token
            answer = await self._tell(client, token, message, receiver) if token else {"error": -216}
            if answer.get("error") in TOKEN_RAN_OUT:
                answer = await self._tell(client, await self._renewed(client), message, receiver)
        if answer.get("error"):
            words_of_zalo = f"Zalo answers {answer.get('error')}: {str(answer.get('message'))[:200]}"
            raise ConnectionError(words_of_zalo) if answer["error"] in NOT_NOW else NoticeRefused(words_of_zalo)

    async def _tell(
        self, client: httpx.AsyncClient, token: str, message: OutgoingMessage, receiver: Receiver
    ) -> dict[str, Any]:
        recipient = {"user_id": receiver.addresses[0]}
        document = {"recipient": recipient, "message": {"text": message.text[:TEXT_CHARS_MAX]}}
        address = f"{self._settings.zalo_api_url}/v3.0/oa/message/cs"
        answer = await client.post(address, json=document, headers={"access_token": token})
        return _document(answer)

    async def _renewed(self, client: httpx.AsyncClient) -> str:
        settings = self._settings
        refresh = await self._kept(REFRESH) or settings.zalo_refresh_token
        if not (refresh and settings.zalo_app_id and settings.zalo_secret_key):
            raise NoticeRefused(
                "the access token of Zalo ran out, and SMAP_ZALO_REFRESH_TOKEN, _APP_ID, _SECRET_KEY are missing"
            )
        form = {"refresh_token": refresh, "app_id": settings.zalo_app_id, "grant_type": "refresh_token"}
        headers = {"secret_key": settings.zalo_secret_key}
        answer = _document(
            await client.post(f"{settings.zalo_oauth_url}/v4/oa/access_token", data=form, headers=headers)
        )
        if not (answer.get("access_token") and answer.get("refresh_token")):
            raise NoticeRefused(f"Zalo does not renew the access token: {str(answer.get('error_name'))[:200]}")
        rows = [{"name": ACCESS, "value": answer["access_token"]}, {"name": REFRESH, "value": answer["refresh_token"]}]
        await self._database.rows("secret_keep", rows=rows)
        return str(answer["access_token"])

    async def _kept(self, name: str) -> str:
        rows = await self._database.rows("secret_get", secret=name)
        return str(rows[0][0]) if rows else ""


def _document(answer: httpx.Response) -> dict[str, Any]:
    if answer.status_code >= 500:
        raise ConnectionError(f"Zalo answers {answer.status_code}")
    try:
        document = answer.json()
    except ValueError:
        raise ConnectionError("Zalo answers with no JSON") from None
    if not isinstance(document, dict):
        raise ConnectionError("Zalo answers with no JSON object")
    return document
