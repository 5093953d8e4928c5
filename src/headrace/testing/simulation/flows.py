"""Small random flows whose items have their fates drawn in advance.

What an item will do — succeed, fail a few times, die, snooze, send, stream, kill its process — follows from the seed
and the item alone, so that any worker that runs it, at any time, does the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from functools import partial, wraps
from random import Random
from typing import Any, Protocol

from headrace.core.errors import HeadraceError
from headrace.core.graph import Graph
from headrace.core.outcomes import Dead, Retry, Snooze
from headrace.core.retry import RetryPolicy
from headrace.core.tally import Tally
from headrace.runtime.context import Context, Out
from headrace.runtime.flow import Flow

ITEMS_MAX = 12
DEPTH_MAX = 2
TIMEOUT_S = 4.0
DECORATED = 0.25
SLOW_S = 1.0
"""Of every item in a slow world: longer than a worker waits until it settles a part of what it holds."""

HANG_S = 1_000.0
PLAIN = "p0"
"""The name of an item that is done at its first attempt and sends one item to each stage that its own feeds."""

RECORD = "INSERT INTO recorded (key, fence) VALUES (?, ?)"
POLICY = RetryPolicy(attempts_max=3, first_s=0.2, cap_s=1.0)


@dataclass(frozen=True, slots=True)
class Parcelled:
    """The payload of every simulated item: a name that is unique in its job, and how far it is from the root."""

    name: str
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Fate:
    """What an item does, attempt by attempt; the last entry goes for all later ones."""

    plan: tuple[str, ...]
    takes_s: float
    sends: tuple[str, ...]
    effect: str


def is_slow(seed: int) -> bool:
    """Whether a world has many long items: then claims are large, and settled in parts."""
    return Random(f"pace {seed}").random() < 0.2


class Surroundings(Protocol):
    """What a handler can do to the simulated world."""

    async def effect(self, kind: str, key: str, fence: int) -> None:
        """Apply an effect; returns when the sink has answered."""

    async def poison(self) -> None:
        """Take the process down. Does not return."""

    def snoozed(self, key: str) -> bool:
        """Whether this item has snoozed before."""

    def ran(self, key: str, fence: int) -> None:
        """A handler has come to its end for this item."""

    def met_outage(self, key: str, fence: int) -> None:
        """What a handler needed for this item did not answer."""


@dataclass(slots=True)
class RandomFlow:
    """A flow, what it was drawn from, and how its items behave."""

    seed: int
    poisonous: bool
    surroundings: Surroundings
    flow: Flow = field(init=False)
    kinds: dict[str, str] = field(init=False)
    scattered: bool = field(init=False)
    slow: bool = field(init=False)

    def __post_init__(self) -> None:
        chance = Random(f"flow {self.seed}")
        self.flow = Flow("simulated")
        self.kinds = {}
        self.scattered = chance.random() < 0.25
        self.slow = is_slow(self.seed)
        middle = chance.random() < 0.7
        loops = chance.random() < 0.4
        unique = chance.random() < 0.3
        tolerate = chance.choice((0, "100%", "100%", "50%"))
        stop_early = chance.random() < 0.15
        self._stage(chance, "find", feeds=["read", "write"] if middle else ["write"], tolerate=tolerate)
        if middle:
            feeds = ["read", "write"] if loops else ["write"]
            depth = {"depth_max": DEPTH_MAX} if loops else {}
            self._stage(chance, "read", feeds=feeds, tolerate=tolerate, stop_early=stop_early, **depth)
        self._stage(chance, "write", tolerate="100%", unique=unique)
        if chance.random() < 0.7:
            self.flow.stage(name="report", after="write", always=chance.random() < 0.5)(self._report())

    @property
    def graph(self) -> Graph:
        return self.flow.graph

    def fate(self, stage: str, name: str) -> Fate:
        targets = self.graph.stages[self.graph.position(stage)].feeds
        if name.startswith(PLAIN):
            return Fate(("done",), 0.01, tuple(target for target in targets if target != stage), "once")
        chance = Random(f"{self.seed} {stage} {name}")
        plan = chance.choice(PLANS)
        if self.poisonous and chance.random() < 0.1:
            plan = ("poison",)
        takes_s = chance.choice((0.0, 0.01, 0.1, 0.5, 3.0)) * chance.random()
        if self.slow:
            takes_s = SLOW_S
        most: tuple[int, ...] = (
            (0, 0, 0, 1) if self.slow else (0, 1, 1, 2) if not self.scattered or stage != "find" else (3, 5)
        )
        sends = tuple(target for target in targets for _ in range(chance.choice(most)))
        return Fate(plan, takes_s, sends, chance.choice(("once", "put", "sql")))

    def _stage(self, chance: Random, name: str, **options: Any) -> None:
        kind = self.kinds[name] = chance.choice(("item", "item", "list", "stream", "thread"))
        if kind == "stream" and name == "write":
            kind = "item"
        if kind == "list":
            options["batch"] = chance.choice((2, 4))
        makers = {"item": self._item, "list": self._list, "stream": self._stream, "thread": self._thread}
        handler = makers[kind](name)
        if kind != "thread" and Random(f"decorated {self.seed} {name}").random() < DECORATED:
            handler = _decorated(handler)
        self.flow.stage(
            name=name,
            concurrency=chance.choice((4, 8)) if self.slow else chance.choice((1, 2, 4)),
            retry=POLICY,
            timeout_s=TIMEOUT_S,
            transaction="recorded",
            **options,
        )(handler)

    def _item(self, stage: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def handle(item: Parcelled, out: Out, context: Context) -> Any:
            fate = self.fate(stage, item.name)
            await asyncio.sleep(fate.takes_s)
            answer = await self._act(fate, context)
            if answer is None:
                for number, target in enumerate(fate.sends):
                    self._send(out, item, number, target)
            self.surroundings.ran(context.effect_key, context.fence)
            return answer

        return handle

    def _stream(self, stage: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def handle(item: Parcelled, out: Out, context: Context) -> Any:
            fate = self.fate(stage, item.name)
            for number in range(out.cursor or 0, len(fate.sends)):
                await asyncio.sleep(fate.takes_s / 2)
                self._send(out, item, number, fate.sends[number])
                await out.commit(cursor=number + 1)
            answer = await self._act(fate, context)
            self.surroundings.ran(context.effect_key, context.fence)
            return answer

        return handle

    def _list(self, stage: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def handle(items: list[Parcelled], out: Out, context: Context) -> Any:
            answers = []
            await asyncio.sleep(max(self.fate(stage, item.name).takes_s for item in items))
            for index, item in enumerate(items):
                fate = self.fate(stage, item.name)
                answers.append(await self._act(fate, context.of(index)))
                if answers[-1] is None:
                    for number, target in enumerate(fate.sends):
                        self._send(out, item, number, target, parent=index)
                self.surroundings.ran(context.of(index).effect_key, context.of(index).fence)
            return answers

        return handle

    def _thread(self, stage: str) -> Callable[..., Any]:
        """A handler in a thread cannot wait for a simulated sink; what it records is applied by its settlement."""

        def handle(item: Parcelled, out: Out, context: Context) -> Any:
            fate = self.fate(stage, item.name)
            context.sql(RECORD, (context.effect_key, context.fence))
            for number, target in enumerate(fate.sends):
                self._send(out, item, number, target)
            self.surroundings.ran(context.effect_key, context.fence)

        return handle

    def _report(self) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def report(tally: Tally, context: Context) -> None:
            assert tally.ended == tally.total, f"a barrier saw {tally}"
            await self._effect("once", context)
            self.surroundings.ran(context.effect_key, context.fence)

        return report

    async def _act(self, fate: Fate, context: Context) -> Any:
        """The effect first, then what the plan says: an attempt that fails has left its effect behind."""
        step = fate.plan[min(context.attempt, len(fate.plan)) - 1]
        if step == "poison":
            await self.surroundings.poison()
        if step in ("hang", "stubborn"):
            await _hang(stubborn=step == "stubborn")
        if step == "snooze" and self.surroundings.snoozed(context.effect_key):
            step = "done"
        if fate.effect == "sql":
            context.sql(RECORD, (context.effect_key, context.fence))
        else:
            await self._effect(fate.effect, context)
        match step:
            case "snooze":
                return Snooze(0.7)
            case "retry":
                return Retry("asked for")
            case "dead":
                return Dead("hopeless", "fated")
            case "raise":
                raise ValueError("fated to fail")
        return None

    async def _effect(self, kind: str, context: Context) -> None:
        try:
            await self.surroundings.effect(kind, context.effect_key, context.fence)
        except HeadraceError:
            self.surroundings.met_outage(context.effect_key, context.fence)
            raise

    def _send(self, out: Out, item: Parcelled, number: int, target: str, **options: Any) -> None:
        """Scattered items come due one by one, so that one settlement has more parcels than it can carry itself."""
        name = f"{item.name}.{number}"
        delay_s = 0.001 * len(name) + 0.01 * number + 0.1 * int(item.name[1]) if self.scattered else 0.0
        out.send(target, Parcelled(name, item.depth + 1), key=name[:4], delay_s=delay_s, **options)


PLANS = (
    *[("done",)] * 9,
    ("raise", "done"),
    ("retry", "raise", "done"),
    ("snooze",),
    ("dead",),
    ("raise",),
    ("hang", "done"),
    ("stubborn", "done"),
)


def _decorated(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Below an ordinary decorator an async handler answers something of which nothing has run."""

    @wraps(handler)
    def call(*values: Any, **named: Any) -> Any:
        return _Unrun(partial(handler, *values, **named))

    return call


class _Unrun:
    """Begins when it is awaited. Not a coroutine, which complains if its process was killed before that."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._begin = begin

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._begin().__await__()


async def _hang(stubborn: bool) -> None:
    """Longer than any timeout; a stubborn handler does not even end when it is cancelled."""
    try:
        await asyncio.sleep(HANG_S)
    except asyncio.CancelledError:
        if not stubborn:
            raise
        await asyncio.sleep(HANG_S)
