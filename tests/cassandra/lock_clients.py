"""Lock clients for tests: on a clock that is moved by hand, with broken twins, and with statements that can be met."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.adapters.cassandra.leases import CassandraLeases
from headrace.adapters.cassandra.options import CassandraOptions
from headrace.adapters.cassandra.session import CassandraSession, CqlRows
from headrace.adapters.cassandra.statements import CqlStatement, statements
from headrace.adapters.cassandra.tokens import Resource, Token, Tokens
from headrace.ports.seams import Clock

# A server that is busy with other tests answers all the same.
PATIENT: Mapping[str, Any] = {"timeout_s": 30.0, "connect_timeout_s": 60.0}
EPOCH_ALONE = "IF epoch = :seen_epoch"
Meeting = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class LockPlace:
    """A client, where a store would be."""

    leases: CassandraLeases
    session: CassandraSession


class UnconfirmedTokens(Tokens):
    """The planted bug: a token is reported as it was drawn."""

    async def is_newest(self, resource: Resource, token: Token) -> bool:
        return True


class AlwaysBoughtTokens(Tokens):
    """The planted bug: every token passes for one whose block was bought while the row was held."""

    async def draw(self, resource: Resource, above: int = 0) -> Token:
        return replace(await super().draw(resource, above), bought=True)


class MetSession:
    """A session in which a test does something just before a statement is sent, once, and which counts statements."""

    def __init__(self, inner: CassandraSession, statement: str, meeting: Meeting) -> None:
        self._inner, self._statement, self._meeting = inner, statement, meeting
        self.options, self.takes, self.met = inner.options, inner.takes, 0
        self.sent: Counter[str] = Counter()

    async def run(self, name: str, values: Mapping[str, Any] | None = None) -> CqlRows:
        if name == self._statement and not self.met:
            self.met = 1
            await self._meeting()
        self.sent[name] += 1
        return await self._inner.run(name, values)


def takeover_by_epoch_alone() -> dict[str, CqlStatement]:
    """The planted bug: the statement of the text, which a stale reader passes after a release."""
    whole = statements()["lock_takeover"]
    return {**statements(), whole.name: replace(whole, text=whole.text.split("IF ")[0] + EPOCH_ALONE)}


async def session_on(url: str, known: Mapping[str, CqlStatement] | None = None, **options: Any) -> CassandraSession:
    """A session whose statements are prepared; its clients compare no clocks."""
    session = await CassandraSession.open(replace(CassandraOptions.of(url), **{**PATIENT, **options}))
    await session.prepare(known or statements())
    return session


def client_on(session: Any, clock: Clock | None = None) -> CassandraLeases:
    return CassandraLeases(session, clock=clock)


def resource() -> str:
    """A name that no other test uses."""
    return f"job:{secrets.token_hex(6)}"
