"""What a handler may ask for besides its payload: `Out` to send items on, `Context` to know what it runs for.

There is no object per item: each lane has one of both, and they look at the lane's place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headrace.core.claims import Statement
from headrace.core.errors import CallerError, Conflict, InvalidFlow, UnknownStage
from headrace.core.graph import Graph
from headrace.core.parcels import KEY_CHARS_MAX, PAYLOAD_BYTES_MAX, Encoded, check_item
from headrace.core.tally import Tally
from headrace.ports.sink import Effect
from headrace.runtime.claim_output import Send
from headrace.runtime.codec import decode_cursor, encode_cursor
from headrace.runtime.slices import Place, Slice

if TYPE_CHECKING:
    from headrace.runtime.flow import Stage

RECORDED, OPEN = "recorded", "open"
"""What a stage may say of its transaction."""

AHEAD_ITEMS = 2_000
AHEAD_BYTES = 1024 * 1024


class Streams(Protocol):
    """The way from a lane to the store."""

    def soon(self, work: Slice) -> None:
        """This slice has something to settle."""

    async def commit(self, place: Place, cursor: bytes | None, sends: list[Send], flips: list[int]) -> None:
        """Make sends and a cursor visible; returns when they are."""

    def stage_ahead(self, work: Slice, sends: list[Send]) -> Awaitable[list[int]]:
        """Write sends ahead of the settlement; the answer is the numbers of their parcels."""


class Out:
    """Sends items to the stages that this stage feeds."""

    __slots__ = (
        "_bytes",
        "_closed",
        "_cursors",
        "_depth_max",
        "_fed",
        "_graph",
        "_place",
        "_stages",
        "_streams",
        "_unique",
        "ahead",
        "pending",
    )

    def __init__(self, place: Place, stages: Mapping[str, Stage], streams: Streams) -> None:
        self._place, self._stages, self._streams = place, stages, streams
        self._closed = False
        self._bytes = 0
        self._cursors: dict[tuple[int, int], Any] = {}
        self._graph: Graph | None = None
        self._fed: dict[str, Callable[[Any], bytes]] = {}
        self._unique: frozenset[str] = frozenset()
        self._depth_max: int | None = None
        self.pending: list[tuple[Slice, Send]] = []
        self.ahead: list[Awaitable[list[int]]] = []

    def send(self, stage: str, payload: Any, key: str | None = None, delay_s: float = 0.0, parent: Any = None) -> bool:
        """Send one item to a stage. It becomes visible when this item is settled as done, and never if it is not.

        In a list handler `parent` names the item it comes from: the item itself or its index. False: a stage that
        feeds itself has reached its `depth_max`, and nothing was sent.
        """
        work, index = self._home(parent)
        if work.claim.graph is not self._graph:
            self._read_arrows(work)
        encode = self._fed.get(stage)
        if encode is None:
            raise self._unknown(work, stage)
        if key is None and stage in self._unique:
            raise CallerError(f"stage {stage!r} is unique: each item needs its key", "out.send(…, key=…)")
        if stage == work.claim.stage and not self._deeper(work):
            return False
        encoded = encode(payload)
        if len(encoded) > PAYLOAD_BYTES_MAX or (key is not None and _is_odd(key)):
            check_item(Encoded(encoded, key))
        place = self._place
        place.loaded = True
        self.pending.append((work, (index, stage, delay_s, encoded, key)))
        self._bytes += len(encoded)
        large = self._bytes > AHEAD_BYTES or len(self.pending) >= AHEAD_ITEMS
        if large and place.batch is None and _on_loop():
            self.ahead.append(self._streams.stage_ahead(work, self._take()))
        return True

    def commit(self, cursor: Any = None) -> Awaitable[None]:
        """Make what was sent so far visible now, together with a cursor that the next holder starts from.

        Only an async handler of one item can do this: a thread cannot wait for the event loop without blocking a
        worker that is stopping, and a list has no one cursor.
        """
        work, _ = self._home(0 if self._place.batch else None)
        if self._place.batch is not None or not _on_loop():
            raise InvalidFlow(
                f"stage {work.claim.stage!r}: out.commit() needs an async handler of one item",
                "declare it `async def` with a single payload",
            )
        if work.stage.transaction == OPEN:
            raise InvalidFlow(
                f"stage {work.claim.stage!r}: what an open transaction sends becomes visible with it, not before",
                "leave out.commit() away, or the open transaction",
            )
        return self._commit(work, cursor, None if cursor is None else encode_cursor(cursor))

    async def _commit(self, work: Slice, cursor: Any, encoded: bytes | None) -> None:
        flips = await self.staged()
        await self._streams.commit(self._place, encoded, self._take(), flips)
        if encoded is not None:
            self._cursors = {(work.fence, self._place.index): cursor}

    async def staged(self) -> list[int]:
        """The numbers of the parcels that were written ahead for this item, once they all are."""
        numbers = [number for staged in self.ahead for number in await staged]
        self.ahead.clear()
        return numbers

    @property
    def cursor(self) -> Any:
        """What was committed last for this item, by this holder or one before it; None if nothing was."""
        work, _ = self._home(None)
        index = self._place.index
        if (work.fence, index) in self._cursors:
            return self._cursors[work.fence, index]
        stored = work.claim.cursors.get(index)
        return None if stored is None else decode_cursor(stored)

    def discard(self) -> None:
        """The attempt did not end done: what it sent and recorded is dropped."""
        self._take()
        self.ahead.clear()
        self._place.statements.clear()
        self._place.loaded = False

    def close(self) -> None:
        """The attempt was given up while its handler still runs: whatever it sends now is refused."""
        self._closed = True
        self.discard()

    def hand_over(self, flips: Iterable[int] = (), but: Collection[tuple[Slice, int]] = ()) -> None:
        """The call went through: what it sent and recorded goes with its items, except with those that are not done."""
        place = self._place
        if place.batch is None and place.slice is not None:
            output = place.slice.output
            output.add(self._take(), ((place.index, number) for number in flips))
            output.record(statement for _, statement in place.statements)
        else:
            for work, send in self.pending:
                if (work, send[0]) not in but:
                    work.output.add((send,))
            for work, statement in place.statements:
                if (work, statement.index) not in but:
                    work.output.record((statement,))
        self.discard()

    def _take(self) -> list[Send]:
        pending, self.pending, self._bytes = self.pending, [], 0
        return [send for _, send in pending]

    def _home(self, parent: Any) -> tuple[Slice, int]:
        place = self._place
        if self._closed or place.slice is None:
            raise Conflict("this attempt is over: it timed out, or its claim was lost")
        if place.batch is None:
            return place.slice, place.index
        if parent is None:
            raise CallerError("a list handler must say which item it speaks for", "out.send(…, parent=item)")
        position = place.batch.position(parent)
        if position < 0:
            raise CallerError(f"parent={parent!r} is not one item of this batch", "give its index instead")
        return place.batch.spots[position]

    def _read_arrows(self, work: Slice) -> None:
        """The job's own graph says what may be sent where; the flow in this process says how it is encoded."""
        graph = self._graph = work.claim.graph
        spec = graph.stages[graph.position(work.claim.stage)]
        self._fed = {name: self._stages[name].codec.encode for name in spec.feeds if name in self._stages}
        self._unique = frozenset(target.name for target in graph.stages if target.unique)
        self._depth_max = spec.depth_max

    def _deeper(self, work: Slice) -> bool:
        return self._depth_max is None or work.claim.depth < self._depth_max

    def _unknown(self, work: Slice, stage: str) -> UnknownStage:
        """Two graphs may differ: the one the job was submitted with, which counts, and the one of this process."""
        sender, graph = work.claim.stage, work.claim.graph
        feeds = graph.stages[graph.position(sender)].feeds
        if stage in feeds:
            return UnknownStage(
                f"stage {sender!r} feeds {stage!r} in this job, but the flow of this process has no stage {stage!r}",
                f"keep {stage!r} declared until the jobs that were submitted with it have ended",
            )
        message = f"stage {sender!r} does not feed {stage!r}: in this job it feeds {', '.join(feeds) or 'nothing'}"
        if stage in work.stage.spec.feeds:
            return UnknownStage(
                message,
                f"a job keeps the graph it was submitted with, and this one is older than feeds={stage!r}: "
                "send to the stages it has until such jobs have ended",
            )
        return UnknownStage(message, f"declare it with feeds={stage!r}")


def _is_odd(key: str) -> bool:
    """Whether a key must be looked at closely: long, or with characters that some store may not keep."""
    return len(key) > KEY_CHARS_MAX or not key.isascii() or "\x00" in key


def _on_loop() -> bool:
    """Whether the handler runs on the event loop, however it was declared."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Context:
    """What an item runs for. In a list handler `context.of(item)` is the context of one item."""

    __slots__ = ("_place",)

    def __init__(self, place: Place) -> None:
        self._place = place

    def of(self, item: Any) -> Context:
        """The context of one item of a list, given as itself or as its index."""
        batch = self._place.batch
        position = batch.position(item) if batch is not None else -1
        if batch is None or position < 0:
            raise CallerError(f"{item!r} is not one item of this batch", "give its index instead")
        place = Place()
        place.slice, place.index = batch.spots[position]
        place.statements, place.connection = self._place.statements, self._place.connection
        return Context(place)

    def sql(self, statement: str, values: Mapping[str, object] | Sequence[object] = ()) -> None:
        """Record a statement on the application's own tables in the store's database, with `?` and values in order, or
        `:name` and values by name. It is applied in the transaction that settles this item as done, and never
        otherwise. If it cannot be applied, this attempt has failed. For stages with `transaction="recorded"`."""
        work, index = self._item
        if work.stage.transaction != RECORDED:
            raise InvalidFlow(
                f"stage {work.claim.stage!r} does not say that its handler records statements",
                'declare it with transaction="recorded"',
            )
        # A copy: what the handler does to its own values afterwards was not recorded.
        own = dict(values) if isinstance(values, Mapping) else tuple(values)
        self._place.statements.append((work, Statement(index, statement, own)))
        self._place.loaded = True

    @property
    def connection(self) -> Any:
        """The connection of the open transaction that this handler runs in, of a stage with `transaction="open"`: a
        psycopg `AsyncConnection`, or a `Connection` in a handler that is not async. What is done with it is committed
        with the settlement of the handler's items, or not at all. `connection.transaction()` is a savepoint."""
        if self._place.connection is None:
            raise InvalidFlow(
                f"stage {self._slice.claim.stage!r} does not run in an open transaction",
                'declare it with transaction="open"',
            )
        return self._place.connection

    @property
    def job(self) -> str:
        return self._slice.claim.job

    @property
    def tenant(self) -> str:
        return self._slice.claim.tenant

    @property
    def flow(self) -> str:
        return self._slice.claim.flow

    @property
    def stage(self) -> str:
        return self._slice.claim.stage

    @property
    def generation(self) -> int:
        return self._slice.claim.generation

    @property
    def tallies(self) -> Mapping[str, tuple[Tally, Tally]]:
        """For a barrier: by stage, the counts of this generation and of all generations together."""
        return self._slice.claim.tallies or {}

    @property
    def ending(self) -> bool:
        """The job was cancelled: the claim will not be renewed, so what can be finished soon should be."""
        return self._slice.ending

    @property
    def seq(self) -> int:
        return self._item[0].claim.seqs[self._item[1]]

    @property
    def key(self) -> str | None:
        work, index = self._item
        return work.claim.keys[index] if work.claim.keys is not None else None

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._item[0].claim.attempt + 1

    @property
    def fence(self) -> int:
        return self._item[0].fence

    @property
    def effect_key(self) -> str:
        """The same in every attempt and redrive of this item."""
        work, index = self._item
        return f"{work.claim.job}/{work.claim.stage}/{work.claim.seqs[index]}"

    def effect(self, name: str = "") -> Effect:
        """What a sink wants to know: `await sink.once(context.effect(), Change(…))`.

        An item with several effects gives each a name of its own.
        """
        return Effect(f"{self.effect_key}/{name}" if name else self.effect_key, self.fence)

    @property
    def _slice(self) -> Slice:
        if self._place.slice is None:
            raise Conflict("there is no item here: a context is only for use inside its handler")
        return self._place.slice

    @property
    def _item(self) -> tuple[Slice, int]:
        if self._place.batch is not None:
            raise CallerError("a list handler has many items", "ask context.of(item)")
        return self._slice, self._place.index
