"""A call over HTTP: the way for a handler in any other language.

The service that is called gets the token of the run and the resource it belongs to, and one key that is the same in
every run of the job. An answer of 2xx is success; redirects are not followed, because they would lead around the list
of what is allowed. Cancelling closes the connection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace import Dead
from headrace.errors import InvalidPayload
from headrace_scheduler.handlers.allow_lists import AllowListed, url_allowed
from headrace_scheduler.handlers.payload_fields import mapping_of, refuse_others, text_of
from headrace_scheduler.handlers.running_job import RunFailed, RunningJob

if TYPE_CHECKING:
    import ssl

    import httpx

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
FENCING_TOKEN, FENCING_RESOURCE, IDEMPOTENCY_KEY = "Fencing-Token", "Fencing-Resource", "Idempotency-Key"
RESULT_BYTES_MAX = 65_536
NAME_CHARS_SHOWN = 100
_FIELDS = ("method", "url", "headers", "body")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
# By another host than the URL's a call would go around the list of what is allowed.
_NOT_GIVEN = ("host", "content-length", "transfer-encoding", "connection")


class HttpCall(AllowListed):
    """`{"type": "http", "method": "POST", "url": "…", "headers": {…}, "body": …}`."""

    setting = "WORKER_HTTP_ALLOW"

    def __init__(self, allowed: Sequence[str]) -> None:
        self.allowed = tuple(allowed)
        self._trust: ssl.SSLContext | None = None

    def check(self, payload: Mapping[str, Any]) -> None:
        text_of(payload, "url")
        if text_of(payload, "method", "POST").upper() not in METHODS:
            raise InvalidPayload(f"payload.method is none of {', '.join(METHODS)}")
        for name, value in mapping_of(payload, "headers").items():
            _check_header(name, value)
        refuse_others(payload, _FIELDS)

    def refusal(self, payload: Mapping[str, Any]) -> str:
        url = text_of(payload, "url")
        allowed = url_allowed(url, self.allowed)
        return "" if allowed else f"{_shown(url)} is not allowed: {self.setting} names no prefix of it"

    async def run(self, job: RunningJob) -> object:
        import httpx

        url = text_of(job.payload, "url")
        shown = _shown(url)
        if refusal := self.refusal(job.payload):
            raise Dead(refusal, "not_allowed")
        # Reading the certificates of a machine takes longer than a call.
        self._trust = self._trust or httpx.create_ssl_context(trust_env=False)
        method, headers = text_of(job.payload, "method", "POST").upper(), _headers(job)
        try:
            # A job has its own time, and its cancellation ends the call.
            async with (
                httpx.AsyncClient(timeout=None, trust_env=False, verify=self._trust) as client,
                client.stream(method, url, headers=headers, **_content(job)) as answer,
            ):
                body = await _read(answer)
        except httpx.InvalidURL as error:
            raise Dead(f"{shown} is no URL: {error}", "invalid_url") from None
        except httpx.LocalProtocolError as error:
            # Its text quotes what was to be sent.
            raise RunFailed(f"{type(error).__name__} calling {shown}") from None
        except httpx.HTTPError as error:
            raise RunFailed(f"{type(error).__name__} calling {shown}: {error}") from None
        if not 200 <= answer.status_code < 300:
            raise RunFailed(f"{shown} answered {answer.status_code}")
        return {"status": answer.status_code, "body": body}


def _check_header(name: str, value: object) -> None:
    """Refused here, because whoever sends it would quote it; what it is, is nobody else's business."""
    if not _NAME.fullmatch(name):
        raise InvalidPayload(f"payload.headers.{name[:NAME_CHARS_SHOWN]!a} is no name of a header")
    if name.lower() in _NOT_GIVEN:
        raise InvalidPayload(f"payload.headers.{name} follows from the url and the body, and cannot be given")
    if not isinstance(value, str) or not value.isprintable() or not value.isascii() or value != value.strip():
        raise InvalidPayload(f"payload.headers.{name} must be a printable ASCII text without blanks at its ends")


def _shown(url: str) -> str:
    """The URL as it may stand in an error: who calls, and with which parameters, may be secret."""
    place, _, _ = url.partition("?")
    scheme, separator, rest = place.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _headers(job: RunningJob) -> dict[str, str]:
    """What the payload names cannot replace what fences the run."""
    own = {
        FENCING_TOKEN: str(job.fencing_token),
        FENCING_RESOURCE: job.resource,
        IDEMPOTENCY_KEY: job.job_id,
    }
    taken = {name.lower() for name in own}
    given = mapping_of(job.payload, "headers")
    return {**{name: value for name, value in given.items() if name.lower() not in taken}, **own}


def _content(job: RunningJob) -> dict[str, Any]:
    """A text is sent as it is, anything else as JSON."""
    body = job.payload.get("body")
    if body is None:
        return {}
    return {"content": body.encode()} if isinstance(body, str) else {"json": body}


async def _read(answer: httpx.Response) -> str:
    """The beginning of the body; the rest of an endless one is not waited for."""
    taken = b""
    async for piece in answer.aiter_bytes():
        taken += piece
        if len(taken) >= RESULT_BYTES_MAX:
            break
    return taken[:RESULT_BYTES_MAX].decode("utf-8", "replace")
