"""A message of a Zalo Official Account to one of its followers.

An access token lives for about a day. It is renewed by the refresh token, which is good for one use: its successor is
kept in the database before the new access token is used, so that a crash does not lock us out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from headrace_smap.database import Database
from headrace_smap.insight import words
from headrace_smap.insight.notifying import Notice, Refused

API_URL = "https://openapi.zalo.me"
OAUTH_URL = "https://oauth.zaloapp.com"
TIMEOUT_S = 20.0
TOKEN_RAN_OUT = frozenset((-216, -220, -124))
NOT_NOW = frozenset((-32, -200, -500))
ACCESS, REFRESH = "zalo_access_token", "zalo_refresh_token"


class ZaloChannel:
    name = "zalo"

    def __init__(self, environment: Mapping[str, str], database: Database) -> None:
        self._environment, self._database = environment, database
        self._api = environment.get("SMAP_ZALO_API_URL") or API_URL
        self._oauth = environment.get("SMAP_ZALO_OAUTH_URL") or OAUTH_URL

    async def send(self, notice: Notice) -> None:
        async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
            token = await self._kept(ACCESS) or self._environment.get("SMAP_ZALO_ACCESS_TOKEN", "")
            answer = await self._tell(client, token, notice) if token else {"error": -216}
            if answer.get("error") in TOKEN_RAN_OUT:
                answer = await self._tell(client, await self._renewed(client), notice)
        if answer.get("error"):
            words_of_zalo = f"Zalo answers {answer.get('error')}: {str(answer.get('message'))[:200]}"
            raise ConnectionError(words_of_zalo) if answer["error"] in NOT_NOW else Refused(words_of_zalo)

    async def _tell(self, client: httpx.AsyncClient, token: str, notice: Notice) -> dict[str, Any]:
        receiver = {"user_id": self._environment["SMAP_ZALO_USER_ID"]}
        document = {"recipient": receiver, "message": {"text": words.text(notice)}}
        answer = await client.post(f"{self._api}/v3.0/oa/message/cs", json=document, headers={"access_token": token})
        return _document(answer)

    async def _renewed(self, client: httpx.AsyncClient) -> str:
        environment = self._environment
        refresh = await self._kept(REFRESH) or environment.get("SMAP_ZALO_REFRESH_TOKEN", "")
        if not (refresh and environment.get("SMAP_ZALO_APP_ID") and environment.get("SMAP_ZALO_SECRET_KEY")):
            raise Refused(
                "the access token of Zalo ran out, and SMAP_ZALO_REFRESH_TOKEN, _APP_ID, _SECRET_KEY are missing"
            )
        form = {"refresh_token": refresh, "app_id": environment["SMAP_ZALO_APP_ID"], "grant_type": "refresh_token"}
        headers = {"secret_key": environment["SMAP_ZALO_SECRET_KEY"]}
        answer = _document(await client.post(f"{self._oauth}/v4/oa/access_token", data=form, headers=headers))
        if not (answer.get("access_token") and answer.get("refresh_token")):
            raise Refused(f"Zalo does not renew the access token: {str(answer.get('error_name'))[:200]}")
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
