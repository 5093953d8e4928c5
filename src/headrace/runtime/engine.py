"""The engine as a program uses it: submit, wait, look, steer, and work in this very process.

A submit whose answer was lost is sent again as it was: the job's id is made here, so the store knows the repeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, cast

from headrace.core.backoff import Backoff
from headrace.core.catalogue import Catalogue
from headrace.core.deliveries import Subscription
from headrace.core.errors import CallerError, HeadraceError, suppress_healing
from headrace.core.jobs import DeadFilter, DeadView, ItemView, JobFilter, JobView
from headrace.core.parcels import Parcel
from headrace.core.recount import Finding, recount
from headrace.core.retry import RetryPolicy
from headrace.core.tally import JobState
from headrace.ports.bus import Bus, EventPublisher
from headrace.ports.leases import Leases
from headrace.ports.ledger import Ledger
from headrace.ports.outbox import Inbox, Outbox
from headrace.ports.parts import Parts, StoreBus
from headrace.ports.sink import Sink
from headrace.ports.transactions import OpenTransactions
from headrace.runtime.background import beside
from headrace.runtime.codec import plain_value
from headrace.runtime.consumers.answers import MessageHandler, one_by_one
from headrace.runtime.consumers.consumer import Consumer
from headrace.runtime.consumers.options import INLET
from headrace.runtime.effects import EffectLine, every_effect
from headrace.runtime.engine_schedules import EngineSchedules
from headrace.runtime.flow import Flow
from headrace.runtime.open_tables import OpenTables
from headrace.runtime.relay import BeforePublish, Relay, RelayOptions
from headrace.runtime.seams import Seams
from headrace.runtime.submission import (
    UPLOAD_BYTES,
    Digest,
    SubmitOptions,
    check_options,
    composed,
    over_upload,
    parcels_of,
    root_of,
)
from headrace.runtime.worker import Worker
from headrace.runtime.yard import WorkerOptions

T = TypeVar("T")
P = ParamSpec("P")
LOOKS = Backoff(0.005, 0.25, factor=1.5, jitter=0.0)


class RelayWishes(TypedDict, total=False):
    """How a relay works: `batch_max` events are held for `hold_s` at a time; an idle one looks every `poll_s`. With
    `topics`, it publishes events of these only; with `keep_unrouted`, what nobody subscribes to again and again;
    `before` is awaited with what is about to be published."""

    batch_max: int
    hold_s: float
    poll_s: float
    topics: tuple[str, ...]
    keep_unrouted: bool
    before: BeforePublish


class InletWishes(TypedDict, total=False):
    """How an inlet works.

    `bus` if it is not the engine's own. `concurrency` messages are handled at a time, `prefetch` held, each for
    `hold_s` and renewed; one call of the handler may take `timeout_s`; `retry` says how long a message waits after a
    failure; an idle inlet looks every `poll_s`.
    """

    bus: Bus
    concurrency: int
    prefetch: int
    hold_s: float
    timeout_s: float
    poll_s: float
    retry: RetryPolicy


class Engine(OpenTables):
    """An open store and everything one can do with it, also on the application's own tables in it. Made by
    `headrace.connect(url)`."""

    def __init__(self, store: Parts, seams: Seams, catalogue: Catalogue | None = None) -> None:
        super().__init__(store.tables, seams, catalogue)
        self.store = store

    # The parts beside the account, for services that work by events

    @property
    def bus(self) -> StoreBus:
        """The bus inside this store: publish, subscribe, receive, and what operators do to it."""
        return self.store.bus

    @property
    def outbox(self) -> Outbox:
        """Events that were committed here and are to be told; a relay tells them."""
        return self.store.outbox

    @property
    def inbox(self) -> Inbox:
        """Messages that were consumed here, each once and together with what follows from it."""
        return self.store.inbox

    @property
    def ledger(self) -> Ledger:
        """Counts that several services share, each with one finish line."""
        return self.store.ledger

    @property
    def leases(self) -> Leases:
        """Named resources, each held by one at a time."""
        return self.store.leases

    @property
    def schedules(self) -> EngineSchedules:
        """Flows that are submitted by the clock: add, set, pause, resume, run, remove, get, list."""
        return EngineSchedules(self.store.schedules, self._seams.clock, self._surely)

    # Jobs

    async def submit(
        self,
        flow: Flow,
        payload: Any,
        *,
        connection: Any = None,
        notify: bool = False,
        **options: Unpack[SubmitOptions],
    ) -> str:
        """Open a job with one item; the answer is the job's id.

        With `connection` (PostgreSQL: psycopg's, or SQLAlchemy's connection or session, to be awaited) the job is
        opened in the transaction of that connection: it exists if and only if you commit. Workers find it by their next
        poll; `notify` wakes them at the commit.
        """
        return await self.submit_many(flow, (payload,), connection=connection, notify=notify, **options)

    async def submit_many(
        self,
        flow: Flow,
        payloads: Iterable[Any] | AsyncIterable[Any],
        *,
        connection: Any = None,
        notify: bool = False,
        **options: Unpack[SubmitOptions],
    ) -> str:
        """Open a job with many items. They are read as they are sent, so memory does not grow with their number, and
        nothing is visible before all have arrived. In a transaction of yours (`connection`, see `submit`) they are sent
        at once, so UPLOAD_BYTES is the limit."""
        check_options(options)
        job, stage = self._seams.identity.new(), root_of(flow, options.get("stage"))
        digest = Digest(stage)
        batch: list[Parcel] = []
        size, uploaded = 0, 0
        async for parcel in parcels_of(flow, stage, payloads, options):
            digest.add(parcel)
            batch.append(parcel)
            size += len(parcel.payload)
            if size >= UPLOAD_BYTES:
                if connection is not None:
                    raise over_upload(size)
                await self._surely(self.store.send, job, tuple(batch))
                batch, size, uploaded = [], 0, uploaded + len(batch)
        whole = replace(composed(flow, job, batch, options, digest.text()), uploaded=uploaded)
        if connection is not None:
            return (await self._joining().submit_in(connection, whole, notify)).job
        return (await self._surely(self.store.submit, whole)).job

    def _joining(self) -> OpenTransactions:
        if not self.store.features.open_transactions:
            raise CallerError(
                "this store does not work in transactions of others", "async with engine.transaction() as tx: …"
            )
        return cast(OpenTransactions, self.store)

    async def wait(self, job: str, timeout_s: float | None = None) -> JobView:
        """The job when its newest generation has ended. `TimeoutError` if that takes longer than `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                looks = 0
                while (view := await self.store.job(job)).state is JobState.OPEN:
                    looks += 1
                    await asyncio.sleep(LOOKS.pause_s(looks))
                return view
        except TimeoutError:
            raise TimeoutError(f"job {job} is still open after {timeout_s:g} s") from None

    def worker(self, *flows: Flow, options: WorkerOptions | None = None) -> AbstractAsyncContextManager[Worker]:
        """A worker in this process for as long as the block runs. It drains at the end of the block, and stops at once
        if the block raises. What makes going on impossible for the worker ends the block with that error."""
        worker = Worker(self.store, flows, self._seams, options or WorkerOptions())
        return beside(worker, worker.stop_now)

    def relay(
        self, bus: EventPublisher | None = None, **wishes: Unpack[RelayWishes]
    ) -> AbstractAsyncContextManager[Relay]:
        """Tell a bus (this store's own if none is given) what the outbox holds, for as long as the block runs: at least
        once, in order per key. Any number may run."""
        options = RelayOptions(**_known(wishes, RelayWishes))
        return beside(Relay(self.outbox, bus or self.bus, self._seams, options))

    def inlet(
        self, subscription: Subscription, handler: MessageHandler, **wishes: Unpack[InletWishes]
    ) -> AbstractAsyncContextManager[Consumer]:
        """Consume a subscription for as long as the block runs, each message once: the handler says what follows, and
        that is one transaction with the inbox row. What is published inside the block is heard. Any number may run. If
        the block raises, messages in hand come again when their hold has passed."""
        given = _known(wishes, InletWishes)
        bus = given.pop("bus", self.bus)
        options = replace(INLET, lanes=given.pop("concurrency", INLET.lanes), seams=self._seams, **given)
        inlet = Consumer(bus, subscription, one_by_one(handler), options, inbox=self.inbox)
        return _subscribed(inlet)

    async def job(self, job: str) -> JobView:
        """One job; `NotFound` if there is none."""
        return await self.store.job(job)

    async def jobs(self, which: JobFilter | None = None) -> Sequence[JobView]:
        """Jobs that match, newest first."""
        return await self.store.jobs(which or JobFilter())

    async def items(self, job: str, stage: str, after_seq: int = -1, limit: int = 100) -> Sequence[ItemView]:
        """Items of one stage in order."""
        found = await self.store.items(job, stage, after_seq, limit)
        return [replace(item, payload=plain_value(item.payload)) for item in found]

    async def dead(self, which: DeadFilter | None = None) -> Sequence[DeadView]:
        """Dead letters that match and were not redriven, newest first."""
        found = await self.store.dead(which or DeadFilter())
        return [replace(letter, payload=plain_value(letter.payload)) for letter in found]

    async def cancel(self, job: str) -> bool:
        """End a job as cancelled; False if it had ended."""
        return await self._surely(self.store.cancel, job)

    async def pause(self, job: str) -> bool:
        """Grant nothing of a job until it is resumed; False if it had ended."""
        return await self._surely(self.store.pause, job)

    async def resume(self, job: str) -> bool:
        """Undo a pause; False if it was not paused."""
        return await self._surely(self.store.resume, job)

    async def cancel_item(self, job: str, stage: str, seq: int) -> bool:
        """End one item as cancelled: now if it waits, at its next return if it is held. False if it had ended."""
        return await self._surely(self.store.cancel_item, job, stage, seq)

    async def close_external(self, job: str, stage: str, event_id: str) -> bool:
        """The event that an external stage waits for; False if an earlier one had closed it."""
        return await self._surely(self.store.close_external, job, stage, event_id)

    async def redrive(self, which: DeadFilter) -> int:
        """Give dead items another passage, a new generation of their job; the number of items."""
        return await self.store.redrive(which)

    async def purge(self, which: DeadFilter) -> int:
        """Forget dead letters; the number of them."""
        return await self.store.purge(which)

    async def verify(self, job: str) -> list[Finding]:
        """Recount one job from its items; an account that is right gives an empty list."""
        return recount(await self.store.audit(job))

    async def answers(self) -> None:
        """Return if the store answers; raise if it does not."""
        await self.store.jobs(JobFilter(limit=1))

    async def effects(self, sink: Sink, job: str = "", left_behind: bool = False) -> AsyncGenerator[EffectLine, None]:
        """What stands in a sink, with how each effect's item ended; only of one job, or only what was left behind."""
        async for line in every_effect(sink, self.store, f"{job}/" if job else ""):
            if line.left_behind or not left_behind:
                yield line

    async def _surely(self, call: Callable[P, Awaitable[T]], *values: P.args, **named: P.kwargs) -> T:
        """Send the same write again while its error may heal: of a lost answer only that can tell."""
        return await self._resent(partial(call, *values, **named), HeadraceError)


@asynccontextmanager
async def _subscribed(inlet: Consumer) -> AsyncIterator[Consumer]:
    # A bus that is away for a moment is waited for by the inlet, which subscribes as well.
    with suppress_healing():
        await inlet.prepare()
    async with beside(inlet):
        yield inlet


def _known(wishes: Any, declared: type[Any]) -> dict[str, Any]:
    """Refuse a wish that nobody would hear."""
    unknown = sorted(set(wishes) - set(declared.__annotations__))
    if unknown:
        raise CallerError(f"there is no option {unknown[0]!r}", f"options: {', '.join(declared.__annotations__)}")
    return dict(wishes)
