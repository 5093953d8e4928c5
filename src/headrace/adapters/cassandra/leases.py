"""Leases on Cassandra: the rows of `locks`, granted by lightweight transactions, with tokens that only rise.

A grant is a compare-and-set on the row, and is reported only after its token was confirmed *while the row was held*: a
serial read of `lock_seq` shows that no client has bought tokens since. Otherwise a newer token is bought, and put into
the row by another compare-and-set. A client without tokens takes the row first, with the token that a resource begins
with, and buys its block then: of a resource that nobody has locked before it is that very token, and the purchase is
the confirmation; of any other it is put into the row, as above.

Let grant 2 follow grant 1 on a resource. The block of token 1 was bought before row 1 was let go, that is before row 2
was written and before token 2 was confirmed; at that moment the block of token 2 was the newest, so it is above that of
token 1, or both belong to one client, which draws in order and makes one grant at a time. Hence tokens rise over all
grants, whoever was granted before, however clocks differ and however long a client was frozen: one that wakes up late
has the lower token, and a sink refuses it.

A conditional write whose answer was lost is unknown. A serial read decides: the row holds what was written (holder,
token and end are this client's own), or what was there before and the same write is sent again, or something else.

Expiry is judged by the client's clock. A clock that is wrong costs a lock early, or time; never the order of tokens.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from headrace.adapters.cassandra.clock import ClientClock
from headrace.adapters.cassandra.decisions import decisive
from headrace.adapters.cassandra.lock_rows import LockRow, row_of
from headrace.adapters.cassandra.session import CassandraSession
from headrace.adapters.cassandra.skew import Skew, SkewGauge
from headrace.adapters.cassandra.statements import statements
from headrace.adapters.cassandra.tokens import Resource, Resources, Token, Tokens
from headrace.core.errors import Busy, CallerError, NotFound, Unknown
from headrace.core.leases import Lease, Leased, LeaseOperation, LeaseOutcome, LeaseVerb
from headrace.ports.leases import LeaseFeatures
from headrace.ports.seams import Clock

Observe = Callable[[LeaseOperation], None]
Answer = TypeVar("Answer", Leased, bool, Token)
ROUNDS_MAX = 5
"""How often one write is sent while its outcome is unknown, or a row moves away under it."""
UNSURE_MAX = 16
"""Writes of unknown outcome that a client remembers for a resource; so often it may be asked for in an outage."""
PAGE_MAX = 1_000
FIRST_TOKEN = 1
_BEFORE_ALL = -(2**63)


class CassandraLeases:
    """`ports.leases.Leases` in one keyspace. One value belongs to one event loop; `observe` is called after every
    operation."""

    features = LeaseFeatures(
        remembers_released=False,
        mints_by_clock=False,
        counts_epochs=False,
        spares_expired=False,
        fixes_fences=False,
        keeps_time=False,
    )

    def __init__(
        self,
        session: CassandraSession,
        observe: Observe | None = None,
        clock: Clock | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        self._session, self._clock = session, clock or ClientClock()
        self._observe = observe or (lambda operation: None)
        self._resources, self._tokens = Resources(), tokens or Tokens(session)
        self._gauge = SkewGauge(session, self._clock)

    async def start(self) -> None:
        """Prepare the statements, and compare the clocks now and every minute."""
        await self._session.prepare(statements())
        await self._gauge.start()

    async def stop(self) -> None:
        await self._gauge.stop()

    @property
    def skew(self) -> Skew:
        """How far this machine's clock is from the coordinator's, as measured last."""
        return self._gauge.skew

    async def measure(self) -> Skew:
        """Compare the clocks now."""
        return await self._gauge.measure()

    def check_clock(self, hold_s: float) -> None:
        """`ClockSkewed` where holds of this length would be refused: for what is dated by this clock besides."""
        self._gauge.check(hold_s)

    async def acquire(self, name: str, holder: str, hold_s: float) -> Leased:
        _check(name, holder)
        self._gauge.check(hold_s)
        async with self._resources.use(name) as resource, resource.turn:
            return await self._timed(LeaseVerb.ACQUIRE, self._acquire(resource, holder, hold_s))

    async def renew(self, name: str, fence: int, hold_s: float) -> bool:
        self._gauge.check(hold_s)
        async with self._resources.use(name) as resource:
            return await self._timed(LeaseVerb.RENEW, self._renew(resource, fence, hold_s))

    async def release(self, name: str, fence: int) -> bool:
        async with self._resources.use(name) as resource:
            return await self._timed(LeaseVerb.RELEASE, self._release(resource, fence))

    async def takeover(self, name: str, holder: str, epoch: int, hold_s: float) -> Leased:
        _check(name, holder)
        self._gauge.check(hold_s)
        async with self._resources.use(name) as resource, resource.turn:
            found = await self._row(name)
            if found is None:
                raise NotFound(f"{name!r} is not held", "acquire it")
            if found.holder == holder and found.epoch == epoch + 1 and self._reported(resource, found):
                return Leased(True, self._lease(name, found), repeated=True)
            again = found.epoch == epoch + 1 and _unreported(resource, found, holder)
            if again or (found.epoch == epoch and found.expired(self._clock.wall())):
                return await self._timed(LeaseVerb.TAKEOVER, self._take(resource, holder, hold_s, found))
            return Leased(False, self._lease(name, found))

    async def look(self, name: str) -> Lease | None:
        found = row_of(await self._session.run("lock_seen", {"resource_id": name}))
        return None if found is None else self._lease(name, found)

    async def next_seq(self, name: str) -> int:
        """The next token of a resource: unique, and continuous within this client as long as no other one draws."""
        _check(name, "-")
        async with self._resources.use(name) as resource:
            return (await self._draw(resource)).value

    async def leases(self) -> AsyncIterator[Lease]:
        """All locks there are, in the order of the ring, as a plain read sees them: for people and reconcilers."""
        after, more = _BEFORE_ALL, True
        while more:
            page = await self._session.run("lock_rows", {"after": after, "count": PAGE_MAX})
            for row in page.rows:
                found = dict(zip(page.columns, row, strict=True))
                yield self._lease(found["resource_id"], LockRow.of(found))
                after = row[-1]
            more = len(page.rows) == PAGE_MAX

    # Grants

    async def _acquire(self, resource: Resource, holder: str, hold_s: float) -> Leased:
        token = await self._draw(resource) if resource.has(0) else None
        value = FIRST_TOKEN if token is None else token.value
        wanted = LockRow(holder, value, self._end(hold_s), value)
        found = await self._claim("lock_insert", resource, wanted, None)
        if found is None:
            return _gone(resource.name, wanted)
        # First: the row that was reported is like the one wanted, if both are of one millisecond.
        if found.holder == holder and self._reported(resource, found):
            return Leased(True, self._lease(resource.name, found), repeated=True)
        if found == wanted:
            if token is None:
                return await self._buy_for(resource, wanted)
            return await self._confirm(resource, wanted, token)
        if found.expired(self._clock.wall()) or _unreported(resource, found, holder):
            return await self._timed(LeaseVerb.TAKEOVER, self._take(resource, holder, hold_s, found))
        return Leased(False, self._lease(resource.name, found))

    async def _take(self, resource: Resource, holder: str, hold_s: float, seen: LockRow) -> Leased:
        """Take an expired row, if it is still as it was seen, under a token above the one that it has."""
        token = await self._draw(resource, seen.token or 0)
        wanted = LockRow(holder, token.value, self._end(hold_s), (seen.epoch or 0) + 1)
        found = await self._claim("lock_takeover", resource, wanted, seen)
        if found == wanted:
            return await self._confirm(resource, wanted, token)
        return _gone(resource.name, seen) if found is None else Leased(False, self._lease(resource.name, found))

    async def _buy_for(self, resource: Resource, row: LockRow) -> Leased:
        """Report a grant whose row was written with the first token of all: its own is drawn while the row is held."""
        token = await self._draw(resource)
        if token.value != row.token:
            # The epoch as well: somebody may have seen the first one in an earlier row.
            moved = replace(row, token=token.value, epoch=token.value)
            if (refused := await self._move(resource, row, moved)) is not None:
                return refused
            row = moved
        # A block that was bought meanwhile, for whoever drew a token beside this, may be older than the row.
        return self._report(resource, row) if token.bought else await self._confirm(resource, row, token)

    async def _confirm(self, resource: Resource, row: LockRow, token: Token) -> Leased:
        """Report a grant once its token is above all others; until then it is moved on, while the row is held."""
        while not await self._tokens.is_newest(resource, token):
            # What is left of its block is no newer.
            token = await self._draw(resource, token.block_end)
            moved = replace(row, token=token.value)
            if (refused := await self._move(resource, row, moved)) is not None:
                return refused
            row = moved
            if token.bought:
                break
        return self._report(resource, row)

    async def _move(self, resource: Resource, row: LockRow, moved: LockRow) -> Leased | None:
        """Put another token into the row that is held. A refusal: it is held no more."""
        found = await self._claim("lock_token", resource, moved, row)
        if found is None:
            return _gone(resource.name, row)
        return None if found == moved else Leased(False, self._lease(resource.name, found))

    def _report(self, resource: Resource, row: LockRow) -> Leased:
        resource.granted, resource.unsure = row, ()
        lease = self._lease(resource.name, row)
        return Leased(not lease.free, lease)

    async def _claim(self, statement: str, resource: Resource, wanted: LockRow, seen: LockRow | None) -> LockRow | None:
        """A write that grants: remembered until its outcome is reported, whatever becomes of the answer. Those before
        it are remembered as well: forgotten, a row of theirs would be waited for until it expires."""
        before = resource.unsure
        resource.unsure = (*before, wanted)[-UNSURE_MAX:]
        found = await self._put(statement, resource.name, wanted, seen)
        if found != wanted:
            resource.unsure = before
        return found

    def _reported(self, resource: Resource, row: LockRow) -> bool:
        """Whether this client reported this very grant, and it lasts."""
        mine = resource.granted
        return mine is not None and mine.token == row.token and not row.expired(self._clock.wall())

    # Holding on, letting go

    async def _renew(self, resource: Resource, fence: int, hold_s: float) -> bool:
        name, row = resource.name, resource.granted
        # What was reported is known without asking; the condition of the write finds out if it is true no more.
        if row is None or row.token != fence or row.expired(self._clock.wall()):
            row = await self._row(name)
        for _ in range(ROUNDS_MAX):
            if row is None or row.token != fence or row.expired(self._clock.wall()):
                return False
            wanted = replace(row, expire_ms=self._end(hold_s))
            found = await self._put("lock_renew", name, wanted, row)
            if found == wanted:
                if resource.granted is not None and resource.granted.token == fence:
                    resource.granted = wanted
                return True
            row = found
        raise Busy(f"{name!r} was renewed by somebody else {ROUNDS_MAX} times at once")

    async def _release(self, resource: Resource, fence: int) -> bool:
        name, row, unsure = resource.name, resource.granted, False
        if row is None or row.token != fence:
            row = await self._row(name)
        else:
            # Not repeated any more: an insert that was sent twice may arrive only now, after others were granted.
            resource.granted = None
        for _ in range(ROUNDS_MAX):
            if row is None or row.token != fence:
                # After a lost answer a row that is gone is what was asked for.
                return unsure and row is None
            values = {"resource_id": name, "holder": row.holder, "fencing_token": fence}
            try:
                return (await self._session.run("lock_release", values)).applied
            except Unknown:
                unsure, row = True, await self._decide(name)
        raise Unknown(f"whether {name!r} is released is not known after {ROUNDS_MAX} tries")

    # Statements

    async def _put(self, statement: str, name: str, wanted: LockRow, seen: LockRow | None) -> LockRow | None:
        """One compare-and-set from the row as it was seen; the row after it, which is `wanted` if that was applied."""
        values: dict[str, Any] = {"resource_id": name, **wanted.values(), **(seen.values("seen_") if seen else {})}
        taken = {value: values[value] for value in self._session.takes(statement)}
        for _ in range(ROUNDS_MAX):
            try:
                answer = await self._session.run(statement, taken)
                return wanted if answer.applied else row_of(answer, seen)
            except Unknown:
                found = await self._decide(name)
                if found != seen:
                    return found
        raise Unknown(f"whether {name!r} is held is not known after {ROUNDS_MAX} tries")

    async def _decide(self, name: str) -> LockRow | None:
        return row_of(await decisive(self._session, "lock_row", {"resource_id": name}))

    async def _row(self, name: str) -> LockRow | None:
        return row_of(await self._session.run("lock_row", {"resource_id": name}))

    async def _draw(self, resource: Resource, above: int = 0) -> Token:
        drawing = self._tokens.draw(resource, above)
        return await (drawing if resource.has(above) else self._timed(LeaseVerb.NEXT_SEQ, drawing))

    async def _timed(self, op: LeaseVerb, work: Awaitable[Answer]) -> Answer:
        began, outcome = self._clock.monotonic(), LeaseOutcome.FAILED
        try:
            answer = await work
            granted = answer.granted if isinstance(answer, Leased) else bool(answer)
            outcome = LeaseOutcome.GRANTED if granted else LeaseOutcome.REFUSED
            return answer
        finally:
            self._observe(LeaseOperation(op, self._clock.monotonic() - began, outcome))

    def _end(self, hold_s: float) -> int:
        return int((self._clock.wall() + hold_s) * 1000)

    def _lease(self, name: str, row: LockRow) -> Lease:
        return row.lease(name, self._clock.wall())


def _check(name: str, holder: str) -> None:
    if not name or not holder:
        raise CallerError("a lease needs a name and a holder")


def _unreported(resource: Resource, row: LockRow, holder: str) -> bool:
    """Whether this client wrote the row for this holder and never learnt of it: then it is as good as expired."""
    return row in resource.unsure and row.holder == holder


def _gone(name: str, row: LockRow) -> Leased:
    """Refused: somebody was faster, and has let go already."""
    return Leased(False, Lease(name, "", row.token or 0, row.epoch or 0, 0.0))
