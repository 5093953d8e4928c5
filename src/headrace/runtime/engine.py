"""The engine as a program uses it: submit, wait, look, steer, and work in this very process.

A submit whose answer was lost is sent again as it was: the job's id is made here, so the store knows the repeat.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack

from headrace.core.errors import CallerError, TooLarge, TryAgain
from headrace.core.jobs import (
    KEEP_S,
    PRIORITY_MAX,
    PRIORITY_MIN,
    DeadFilter,
    DeadView,
    ItemView,
    JobFilter,
    JobView,
    Submission,
)
from headrace.core.parcels import KEY_CHARS_MAX, PARCEL_ITEMS_MAX, Parcel
from headrace.core.recount import Finding, recount
from headrace.core.tally import JobState
from headrace.ports.backend import Backend
from headrace.runtime.codec import pack_values
from headrace.runtime.flow import Flow
from headrace.runtime.seams import Seams
from headrace.runtime.worker import Worker
from headrace.runtime.yard import WorkerOptions

T = TypeVar("T")
P = ParamSpec("P")
UPLOAD_BYTES = 4 * 1024 * 1024
RESENDS_MAX = 10
RESEND_S_MIN, RESEND_S_MAX = 0.05, 2.0
LOOK_S_MIN, LOOK_S_MAX = 0.005, 0.25


class SubmitOptions(TypedDict, total=False):
    """How a job is opened.

    `key` makes it idempotent: the same key with the same items is the same job, with others it is refused. `stage`
    names the root stage where there are several. `item_key` gives each item its business key. `keep_s` is how long
    the items can be listed after the end.
    """

    key: str | None
    tenant: str
    priority: int
    delay_s: float
    keep_s: float
    stage: str
    item_key: Callable[[Any], str | None]


class Engine:
    """An open store and everything one can do with it. Made by `headrace.connect(url)`."""

    def __init__(self, store: Backend, seams: Seams) -> None:
        self.store = store
        self._seams = seams

    async def submit(self, flow: Flow, payload: Any, **options: Unpack[SubmitOptions]) -> str:
        """Open a job with one item; the answer is the job's id."""
        return await self.submit_many(flow, (payload,), **options)

    async def submit_many(
        self, flow: Flow, payloads: Iterable[Any] | AsyncIterable[Any], **options: Unpack[SubmitOptions]
    ) -> str:
        """Open a job with many items. They are read as they are sent, so memory does not grow with their number, and
        nothing is visible before all have arrived."""
        check_options(options)
        job, stage = self._seams.identity.new(), _root(flow, options.get("stage"))
        digest = _Digest(stage)
        batch: list[Parcel] = []
        size, uploaded = 0, False
        async for parcel in _parcels(flow, stage, payloads, options):
            digest.add(parcel)
            batch.append(parcel)
            size += len(parcel.payload)
            if size >= UPLOAD_BYTES:
                await self._surely(self.store.send, job, tuple(batch))
                batch, size, uploaded = [], 0, True
        submission = Submission(
            job,
            flow.name,
            flow.graph,
            tuple(batch),
            options.get("tenant", "default"),
            options.get("key"),
            digest.text(),
            options.get("priority", 0),
            options.get("delay_s", 0.0),
            options.get("keep_s", KEEP_S),
            uploaded,
        )
        return (await self._surely(self.store.submit, submission)).job

    async def wait(self, job: str, timeout_s: float | None = None) -> JobView:
        """The job when its newest generation has ended. `TimeoutError` if that takes longer than `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                look_s = LOOK_S_MIN
                while (view := await self.store.job(job)).state is JobState.OPEN:
                    await asyncio.sleep(look_s)
                    look_s = min(LOOK_S_MAX, look_s * 1.5)
                return view
        except TimeoutError:
            raise TimeoutError(f"job {job} is still open after {timeout_s:g} s") from None

    @asynccontextmanager
    async def worker(self, *flows: Flow, options: WorkerOptions | None = None) -> AsyncIterator[Worker]:
        """A worker in this process for as long as the block runs. It drains at the end of the block, and stops at once
        if the block raises. What makes going on impossible for the worker ends the block with that error."""
        worker = Worker(self.store, flows, self._seams, options or WorkerOptions())
        block, running = asyncio.current_task(), asyncio.ensure_future(worker.run())
        running.add_done_callback(lambda done: _failed(done) and block and block.cancel())
        try:
            yield worker
        except BaseException:
            worker.stop_now()
            await asyncio.wait([running])
            error = _failed(running)
            if error is None or block is None:
                raise
            block.uncancel()
            raise error from None
        worker.drain()
        await running

    async def job(self, job: str) -> JobView:
        """One job; `NotFound` if there is none."""
        return await self.store.job(job)

    async def jobs(self, which: JobFilter | None = None) -> Sequence[JobView]:
        """Jobs that match, newest first."""
        return await self.store.jobs(which or JobFilter())

    async def items(self, job: str, stage: str, after_seq: int = -1, limit: int = 100) -> Sequence[ItemView]:
        """Items of one stage in order."""
        return await self.store.items(job, stage, after_seq, limit)

    async def dead(self, which: DeadFilter | None = None) -> Sequence[DeadView]:
        """Dead letters that match and were not redriven, newest first."""
        return await self.store.dead(which or DeadFilter())

    async def cancel(self, job: str) -> bool:
        """End a job as cancelled; False if it had ended."""
        return await self._surely(self.store.cancel, job)

    async def pause(self, job: str) -> bool:
        """Grant nothing of a job until it is resumed; False if it had ended."""
        return await self._surely(self.store.pause, job)

    async def resume(self, job: str) -> bool:
        """Undo a pause; False if it was not paused."""
        return await self._surely(self.store.resume, job)

    async def redrive(self, which: DeadFilter) -> int:
        """Give dead items another passage, a new generation of their job; the number of items."""
        return await self.store.redrive(which)

    async def purge(self, which: DeadFilter) -> int:
        """Forget dead letters; the number of them."""
        return await self.store.purge(which)

    async def verify(self, job: str) -> list[Finding]:
        """Recount one job from its items; an account that is right gives an empty list."""
        return recount(await self.store.audit(job))

    async def _surely(self, call: Callable[P, Awaitable[T]], *values: P.args, **named: P.kwargs) -> T:
        """Send the same write again while its answer is unknown: only that can tell."""
        for attempt in range(RESENDS_MAX):
            try:
                return await call(*values, **named)
            except TryAgain:
                wait_s = min(RESEND_S_MAX, RESEND_S_MIN * 2**attempt)
                await asyncio.sleep(wait_s * (1 - self._seams.chance.random() / 2))
        return await call(*values, **named)


def _failed(running: asyncio.Future[None]) -> BaseException | None:
    return running.exception() if running.done() and not running.cancelled() else None


class _Digest:
    """What was submitted, however it was cut into parcels: msgpack ends where it ends, so bytes in a row say it all."""

    def __init__(self, stage: str) -> None:
        self._items = hashlib.sha256(stage.encode())
        self._keys = hashlib.sha256()
        self._count = 0

    def add(self, parcel: Parcel) -> None:
        self._items.update(parcel.payload)
        for index, key in enumerate(parcel.keys or (), self._count):
            if key is not None:
                self._keys.update(f"{index}:{len(key)}:{key}".encode())
        self._count += parcel.count

    def text(self) -> str:
        self._items.update(self._keys.digest())
        return self._items.hexdigest()


def check_options(options: SubmitOptions) -> None:
    """Refuse what no store would take, before anything is encoded."""
    unknown = set(options) - set(SubmitOptions.__annotations__)
    if unknown:
        known = ", ".join(SubmitOptions.__annotations__)
        raise CallerError(f"submit has no option {', '.join(sorted(unknown))}", f"options: {known}")
    priority = options.get("priority", 0)
    if not PRIORITY_MIN <= priority <= PRIORITY_MAX:
        raise CallerError(f"priority={priority} is not between {PRIORITY_MIN} and {PRIORITY_MAX}")
    for name in ("delay_s", "keep_s"):
        value = options.get(name, 0.0)
        if not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise CallerError(f"{name}={value!r} is not a number of seconds from 0 on")
    for name in ("key", "tenant"):
        text = options.get(name)
        if text == "":
            raise CallerError(f"{name} is empty", "leave it out instead")
        if isinstance(text, str) and len(text) > KEY_CHARS_MAX:
            raise TooLarge(f"{name} has {len(text):,} characters, over KEY_CHARS_MAX = {KEY_CHARS_MAX}")


def _root(flow: Flow, stage: str | None) -> str:
    roots = flow.graph.roots
    if stage is None and len(roots) == 1:
        return roots[0]
    if stage in roots:
        return stage
    if stage is not None:
        flow.graph.position(stage)
        raise CallerError(f"items are not submitted to {stage!r}: other stages feed it", f"stages: {', '.join(roots)}")
    raise CallerError(f"flow {flow.name!r} has several root stages", f"say stage=… with one of: {', '.join(roots)}")


async def _parcels(
    flow: Flow, stage: str, payloads: Iterable[Any] | AsyncIterable[Any], options: SubmitOptions
) -> AsyncIterator[Parcel]:
    """Parcels as the payloads come, numbered from 0."""
    number = 0
    async for group in _groups(payloads):
        for parcel in pack_values(flow.stages[stage].codec, group, options.get("item_key")):
            yield replace(parcel, number=number)
            number += 1


async def _groups(payloads: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Iterable[Any]]:
    """A plain iterable as it is; an asynchronous one by the parcel, because packing does not wait."""
    if not isinstance(payloads, AsyncIterable):
        yield payloads
        return
    group: list[Any] = []
    async for payload in payloads:
        group.append(payload)
        if len(group) >= PARCEL_ITEMS_MAX:
            yield group
            group = []
    yield group
