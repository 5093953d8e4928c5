"""Authentication, and what a browser may do with the answer.

Three doors. The *name* under which the service is addressed: on loopback a web page could reach it by a name of its own
that leads to 127.0.0.1, so unknown names are refused. The *key*, if there is one: `Authorization: Bearer`, `X-API-Key`,
or as the password a browser asks for; it must have the scope for what is asked. The *origin* of a change: a browser
sends passwords along with what other sites ask it to send, so a change that another site asked for is refused.
"""

from __future__ import annotations

import base64
import binascii
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.http.options import (
    HARMLESS,
    LOOPBACK_NAMES,
    METRICS_PATH,
    NOBODY,
    TENANT_HEADER,
    Keys,
    KeyScope,
    Options,
    is_loopback,
)
from headrace.http.problems import Problem

OPEN_PATHS = ("/healthz", "/readyz")
"""Whoever looks after a process has no key of the service that runs in it."""
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_ALWAYS = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("X-Frame-Options", "DENY"),
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", POLICY),
)
_ASK = {"WWW-Authenticate": 'Bearer, Basic realm="API key as password", charset="UTF-8"'}


class SafeHeaders:
    """Every answer says what it is not good for; one that knows better has said so itself."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sender(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _ALWAYS:
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, sender)


class Guard:
    """Name, key, origin. Lets through with the key's name (`actor`), the tenant that the request belongs to
    (`of_tenant`, "" if none) and whose repeats it shares (`tenant`) in `scope["state"]`; to an open path also without.
    """

    def __init__(self, app: ASGIApp, options: Options) -> None:
        self.app, self.options = app, options
        self._keys = Keys(options.keys)
        self._names = {name.lower() for name in (*LOOPBACK_NAMES, options.host, *options.hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._admit(scope)
            except Problem:
                path = scope["path"].removeprefix(scope.get("root_path", ""))
                if path not in OPEN_PATHS or scope["method"] not in HARMLESS:
                    raise
        await self.app(scope, receive, send)

    def _admit(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        self._check_name(scope, headers)
        state = scope.setdefault("state", {})
        state["actor"] = actor = self._actor(headers)
        state["key_scope"] = may = self.options.access.scopes.get(actor, KeyScope.WRITE)
        state["of_tenant"] = own = self.options.access.tenants.get(actor, "") if self.options.access.by_tenant else ""
        state["of_tenant"] = tenant = self._tenant(own, headers)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if not may.allows(scope["method"], path):
            raise Problem(403, "scope", f"the scope of this API key is {may}", hint="use a key that may do this")
        if own and path == METRICS_PATH:
            raise Problem(403, "tenant", f"metrics are of all tenants, and this API key is one of the tenant {own}")
        if scope["method"] not in HARMLESS:
            _check_origin(headers)
        # All keys of a tenant share their repeats; a key that names one has its own with each.
        owner = "" if actor in self.options.access.tenants else actor
        state["tenant"] = f"{owner}@{tenant}" if tenant else actor

    def _check_name(self, scope: Scope, headers: Headers) -> None:
        if self._keys and not self.options.local:
            return
        if _host_of(headers.get("host", "")) not in self._names:
            raise Problem(
                421, "unknown-host", "this service is not known under that name", hint="address it as 127.0.0.1"
            )
        server = scope.get("server")
        if not self._keys and server and server[0][:1] in "0123456789:" and not is_loopback(server[0]):
            # Somebody serves the application by other means than ours, and has opened it to a network.
            raise Problem(403, "no-key", "without an API key this service answers on loopback only")

    def _tenant(self, own: str, headers: Headers) -> str:
        """The key's own, else the one that the request names."""
        if not self.options.access.by_tenant:
            return ""
        named = headers.get(TENANT_HEADER.lower(), "")
        if own and named not in ("", own):
            raise Problem(403, "tenant", f"this API key is one of the tenant {own}", hint="leave the header Tenant out")
        return own or named

    def _actor(self, headers: Headers) -> str:
        if not self._keys:
            return NOBODY
        actor = self._keys.tenant_of(_given(headers))
        if actor is None:
            raise Problem(401, "no-key", "this needs an API key", hint="Authorization: Bearer KEY", headers=_ASK)
        return actor


def tenant_of(request: Request) -> str:
    """The tenant that a request belongs to; "" if it names none, and so is an operator's."""
    return str(request.scope.get("state", {}).get("of_tenant", ""))


def may_write(request: Request) -> bool:
    """Whether the key of a request, if one was asked for, may change things."""
    return bool(request.scope.get("state", {}).get("key_scope", KeyScope.WRITE) is KeyScope.WRITE)


def actor_of(request: Request) -> str:
    """The name of a request's key; "" where none is asked for."""
    return str(request.scope.get("state", {}).get("actor", NOBODY))


def _given(headers: Headers) -> str:
    if key := headers.get("x-api-key"):
        return key
    kind, _, value = headers.get("authorization", "").partition(" ")
    match kind.lower():
        case "bearer":
            return value.strip()
        case "basic":
            try:
                return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return ""
        case _:
            return ""


def _check_origin(headers: Headers) -> None:
    origin = headers.get("origin")
    foreign = headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
    # A page without an origin of its own says "null", which is nobody's host.
    if foreign or (origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower()):
        raise Problem(403, "foreign-origin", "a page of another site may not change anything here")


def _host_of(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
