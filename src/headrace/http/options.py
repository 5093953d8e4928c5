"""What a service tells the kit, checked once at the edge.

Who may come in is decided here: an address that others can reach is refused unless there is an API key, so that no
service is open to a network by mistake.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from headrace.core.errors import CallerError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from headrace.http.idempotency import IdempotencyStore

KEY_CHARS_MIN = 32
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
NOBODY = ""
"""The tenant of a request where no key is asked for."""

HARMLESS = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""
METRICS_PATH = "/metrics"
TENANT_HEADER = "Tenant"
EVERY_TENANT = "*"

Check = Callable[[], Awaitable[object]]
"""Raises if the part is not ready; what it returns does not matter."""


class KeyScope(StrEnum):
    """What a key may do: read `/metrics` and nothing else, read everything, or change things as well."""

    METRICS = "metrics"
    READ = "read"
    WRITE = "write"

    def allows(self, method: str, path: str) -> bool:
        if self is KeyScope.METRICS:
            return method in HARMLESS and path == METRICS_PATH
        return self is KeyScope.WRITE or method in HARMLESS


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """A request that may have changed something, or was refused: whose key it was and for which tenant, what was asked,
    and the status of the answer. `location` is where what was made is found, as the answer says. `left_out` counts
    refusals since the last one that were too many to write down."""

    actor: str
    method: str
    route: str
    path: str
    status: int
    tenant: str = ""
    left_out: int = 0
    location: str = ""


Audit = Callable[[AuditedRequest], Awaitable[object]]
"""Writes one down, after the answer."""


@dataclass(frozen=True, slots=True)
class Access:
    """Further API keys by name, and what they may do: a key without a scope may do everything. `rate_per_s` bounds the
    requests of each key in this process.

    `by_tenant`: requests belong to tenants. A key in `tenants` is its tenant's, whatever the request says; any other,
    and a caller of whom no key is asked, may name one in the header `Tenant`. `tenant_rates` bound the requests of all
    keys of a tenant together; `*` is every tenant that is not named.
    """

    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    scopes: Mapping[str, KeyScope] = field(default_factory=dict)
    by_tenant: bool = False
    tenants: Mapping[str, str] = field(default_factory=dict)
    tenant_rates: Mapping[str, float] = field(default_factory=dict)
    rate_per_s: float | None = None
    audit: Audit | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The most of everything that comes in; over it the answer is a problem that names the limit.

    `key_hold_s`: so long after a process died its requests with an Idempotency-Key can be sent again.
    """

    body_bytes_max: int = 1_048_576
    body_s_max: float = 10.0
    depth_max: int = 32
    request_s_max: float = 30.0
    requests_max: int = 512
    streams_max: int = 256
    stall_s_max: float = 60.0
    check_s_max: float = 2.0
    key_hold_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    """A service as the kit sees it.

    `api_keys` are keys by tenant; `access` has further ones, which may do less. `hosts` are further names under which
    it may be addressed; on loopback any other is refused, because it would be a web page that reaches for this machine
    by a name of its own. `checks` are what `/readyz` asks, by name; `health` is what `/healthz` asks, for a service
    that counts as dead without a part (and is started again for it); `beside` has what it can work without, asked for
    anew each time: then it is ready, and degraded. Without a registry there is one of its own,
    without a store answers are kept in memory.
    """

    name: str
    version: str = "1"
    host: str = "127.0.0.1"
    port: int = 0
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    access: Access = Access()
    hosts: tuple[str, ...] = ()
    limits: Limits = Limits()
    checks: Mapping[str, Check] = field(default_factory=dict)
    health: Mapping[str, Check] = field(default_factory=dict)
    beside: Callable[[], Mapping[str, Check]] = dict
    registry: CollectorRegistry | None = None
    idempotency: IdempotencyStore | None = None

    def __post_init__(self) -> None:
        for tenant, key in (*self.api_keys.items(), *self.access.api_keys.items()):
            if len(key) < KEY_CHARS_MIN or not key.isascii() or not key.isprintable():
                raise CallerError(
                    f"the API key of {tenant!r} is not {KEY_CHARS_MIN} or more printable ASCII characters",
                    "make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
                )
        if twice := set(self.api_keys) & set(self.access.api_keys):
            raise CallerError(f"there are two API keys of the name {min(twice)!r}", "give one of them another name")
        if not self.keys and not is_loopback(self.host):
            raise CallerError(
                f"without an API key nothing is served on {self.host or 'every address'}, which others can reach",
                "set an API key, or listen on 127.0.0.1",
            )

    @property
    def keys(self) -> Mapping[str, str]:
        return {**self.api_keys, **self.access.api_keys}

    @property
    def local(self) -> bool:
        """Only this machine can reach it."""
        return is_loopback(self.host)


class Keys:
    """API keys as their digests: what is not kept cannot be shown."""

    __slots__ = ("_digests",)

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._digests = {tenant: _digest(key) for tenant, key in keys.items()}

    def __bool__(self) -> bool:
        return bool(self._digests)

    def tenant_of(self, given: str) -> str | None:
        """Whose key it is. All are compared, each in constant time: how long it takes tells nothing."""
        digest, found = _digest(given), None
        for tenant, known in self._digests.items():
            if hmac.compare_digest(digest, known):
                found = tenant
        return found


def is_loopback(host: str) -> bool:
    """Whether an address, or a name that always means it, is this machine's own."""
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
