"""A job to be opened, from an author's values: encoded, packed into parcels, and with a digest of all of it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypedDict

from headrace.core.errors import CallerError, TooLarge
from headrace.core.jobs import KEEP_S, PRIORITY_MAX, PRIORITY_MIN, Submission
from headrace.core.parcels import KEY_CHARS_MAX, PARCEL_ITEMS_MAX, Parcel
from headrace.runtime.codec import pack_values
from headrace.runtime.flow import Flow, check_flow

UPLOAD_BYTES = 4 * 1024 * 1024


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


class Digest:
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


def submission(flow: Flow, job: str, payloads: Iterable[Any], options: SubmitOptions) -> Submission:
    """A job with few items, whole and ready to be submitted: as what follows from a message, for instance."""
    check_options(options)
    stage = root_of(flow, options.get("stage"))
    digest, parcels = Digest(stage), []
    for number, parcel in enumerate(pack_values(flow.stages[stage].codec, payloads, options.get("item_key"))):
        digest.add(parcel)
        parcels.append(replace(parcel, number=number))
    size = sum(len(parcel.payload) for parcel in parcels)
    if size > UPLOAD_BYTES:
        raise over_upload(size)
    return composed(flow, job, parcels, options, digest.text())


def over_upload(size: int) -> TooLarge:
    """A job that is sent at once has a limit; one that is sent in pieces has none."""
    return TooLarge(
        f"a submission of {size:,} bytes is over UPLOAD_BYTES = {UPLOAD_BYTES:,}",
        "await engine.submit_many(…) in a transaction of its own",
    )


def composed(flow: Flow, job: str, parcels: Sequence[Parcel], options: SubmitOptions, digest: str) -> Submission:
    """The submission of a job's last parcels, with everything that is said about the job."""
    return Submission(
        job=job,
        flow=flow.name,
        graph=flow.graph,
        parcels=tuple(parcels),
        tenant=options.get("tenant", "default"),
        key=options.get("key"),
        digest=digest,
        priority=options.get("priority", 0),
        delay_s=options.get("delay_s", 0.0),
        keep_s=options.get("keep_s", KEEP_S),
    )


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


def root_of(flow: Flow, stage: str | None) -> str:
    check_flow(flow)
    roots = flow.graph.roots
    if stage is None and len(roots) == 1:
        return roots[0]
    if stage in roots:
        return stage
    if stage is not None:
        flow.graph.position(stage)
        raise CallerError(f"items are not submitted to {stage!r}: other stages feed it", f"stages: {', '.join(roots)}")
    raise CallerError(f"flow {flow.name!r} has several root stages", f"say stage=… with one of: {', '.join(roots)}")


async def parcels_of(
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
