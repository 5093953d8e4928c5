"""A flow as its author writes it: stages are functions, options say how they run.

flow = Flow("digest")

@flow.stage(feeds="read")
async def find(query: Query, out: Out) -> None: ...

@flow.stage(batch=100, tolerate="1%")
async def read(pages: list[Page]) -> None: ...

@flow.stage(after="read")
async def report(done: Tally) -> None: ...

A flow that is submitted by the clock says so above the stage that takes the item: `@flow.every("0 6 * * *")`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Literal, TypedDict, Unpack, overload

from headrace.core.claims import TIMEOUT_S
from headrace.core.errors import CallerError, InvalidFlow
from headrace.core.graph import NAME_CHARS_MAX, Graph, Kind, StageSpec
from headrace.core.retry import RetryPolicy
from headrace.core.tally import Tolerance
from headrace.ports.sink import Sink
from headrace.runtime.answers import IGNORE, REFUSE
from headrace.runtime.codec import Codec, codec_for
from headrace.runtime.context import OPEN, RECORDED
from headrace.runtime.handler import Handler, Shape, read_handler
from headrace.runtime.schedule_declarations import EveryDeclaration, EveryOptions, read_every

CONCURRENCY = 10
CONCURRENCY_MAX = 10_000
BATCH = 100
BATCH_MAX = 10_000

Names = str | Sequence[str]


class StageOptions(TypedDict, total=False):
    """What may be said about a stage.

    `feeds`: stages it sends to. `after`: makes it a barrier, one item when those have closed. `batch`, `batch_wait_s`:
    how many items a list handler gets at most and how long it waits for them. `concurrency`: lanes per worker process.
    `retry`: the policy for attempts that fail. `tolerate`: dead items its job bears, a count or a share such as "5%";
    `stop_early` fails the job as soon as they are more. `unique`: one item per key. `depth_max`: how deep a stage that
    feeds itself goes. `timeout_s`: of one call of the handler, counted anew from each commit. `always`: a barrier that
    also runs in a cancelled job. `generations`: whether a barrier runs in "every" generation or in the "first" only.
    `transaction`: "recorded" lets the handler record statements (`context.sql`) that are applied with its settlement;
    "open" runs it inside a transaction of a PostgreSQL store (`context.connection`) that its settlement ends.
    `returns`: what becomes of a value that is no answer: "refuse" makes it a failed attempt, "ignore" means done.
    `sink`: where its handler's effects go, one or several: they are told of lost claims before an item runs again.
    """

    feeds: Names
    after: Names
    batch: int
    batch_wait_s: float
    concurrency: int
    retry: RetryPolicy
    tolerate: int | str
    stop_early: bool
    unique: bool
    depth_max: int
    timeout_s: float
    always: bool
    generations: Literal["every", "first"]
    transaction: Literal["recorded", "open"]
    returns: Literal["refuse", "ignore"]
    sink: Sink | Sequence[Sink]
    name: str


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage with its handler, as a worker runs it."""

    name: str
    flow: str
    shape: Shape
    codec: Codec
    spec: StageSpec
    retry: RetryPolicy
    concurrency: int
    batch: int
    batch_wait_s: float
    timeout_s: float
    sinks: tuple[Sink, ...] = ()
    transaction: str = ""
    returns: str = REFUSE

    @property
    def handler(self) -> Callable[..., Any]:
        return self.shape.handler


class Flow:
    """A named graph of stages. Declare the stages, then submit jobs and run workers with it."""

    def __init__(self, name: str) -> None:
        if not name or len(name) > NAME_CHARS_MAX or "/" in name:
            raise InvalidFlow(f"flow name {name!r} must have 1 to {NAME_CHARS_MAX} characters and no slash")
        self.name = name
        self._stages: dict[str, Stage] = {}
        self._specs: dict[str, StageSpec] = {}
        self._graph: Graph | None = None
        self._declarations: list[EveryDeclaration] = []

    def __repr__(self) -> str:
        return f"Flow({self.name!r})"

    @property
    def stages(self) -> Mapping[str, Stage]:
        """The stages that have a handler, by name."""
        return MappingProxyType(self._stages)

    @property
    def graph(self) -> Graph:
        """The graph of all stages; `InvalidFlow` or `UnknownStage` says what is wrong with it."""
        if self._graph is None:
            self._graph = Graph.build(self._specs.values())
        return self._graph

    @overload
    def stage(self, handler: Handler, /, **options: Unpack[StageOptions]) -> Handler: ...

    @overload
    def stage(self, /, **options: Unpack[StageOptions]) -> Callable[[Handler], Handler]: ...

    def stage(self, handler: Any = None, /, **options: Unpack[StageOptions]) -> Any:
        """Declare a function as the handler of a stage of the same name. The function stays what it is."""
        if handler is not None:
            return self._declare(handler, options)
        return lambda declared: self._declare(declared, options)

    def external(self, name: str, after: Names = (), deadline_s: float | None = None) -> None:
        """Declare a stage that somebody else's event closes; at its deadline its one item dies."""
        if deadline_s is not None and deadline_s <= 0:
            raise InvalidFlow(f"stage {name!r}: deadline_s={deadline_s} must be above 0")
        self._add(StageSpec(name, Kind.EXTERNAL, after=_names(after), deadline_s=deadline_s))

    def every(self, when: str | timedelta, /, **options: Unpack[EveryOptions]) -> Callable[[Handler], Handler]:
        """Submit this flow by the clock, each moment once, whichever worker is up: `when` is a cron expression, a
        duration such as PT5M, or a timedelta. It may stand above the root stage that takes the item, or alone."""
        index = len(self._declarations)
        self._declarations.append(read_every(self.name, when, options))

        def bound(handler: Handler) -> Handler:
            self._declarations[index] = replace(self._declarations[index], handler=handler)
            return handler

        return bound

    @property
    def declarations(self) -> Sequence[EveryDeclaration]:
        """The schedules that were declared with `every`."""
        return tuple(self._declarations)

    def _declare(self, handler: Handler, options: StageOptions) -> Handler:
        name: str = options.get("name") or str(getattr(handler, "__name__", ""))
        unknown = sorted(set(options) - set(StageOptions.__annotations__))
        if unknown:
            known = ", ".join(sorted(StageOptions.__annotations__))
            raise InvalidFlow(f"stage {name!r}: there is no option {unknown[0]!r}", f"the options are: {known}")
        _check_options(name, options)
        shape = read_handler(name, handler, barrier="after" in options)
        _check_shape(name, shape, options)
        spec = _spec(name, options)
        stage = Stage(
            name=name,
            flow=self.name,
            shape=shape,
            codec=codec_for(name, shape.payload),
            spec=spec,
            retry=options.get("retry", RetryPolicy()),
            concurrency=options.get("concurrency", CONCURRENCY),
            batch=options.get("batch", BATCH) if shape.takes_list else 1,
            batch_wait_s=options.get("batch_wait_s", 0.0),
            timeout_s=options.get("timeout_s", TIMEOUT_S),
            sinks=_sinks(name, options),
            transaction=options.get("transaction", ""),
            returns=options.get("returns", REFUSE),
        )
        self._add(spec)
        self._stages[name] = stage
        return handler

    def _add(self, spec: StageSpec) -> None:
        if spec.name in self._specs:
            raise InvalidFlow(f"flow {self.name!r}: two stages are called {spec.name!r}", "give one of them name=…")
        self._specs[spec.name] = spec
        self._graph = None


def _spec(name: str, options: StageOptions) -> StageSpec:
    return StageSpec(
        name=name,
        kind=Kind.BARRIER if "after" in options else Kind.WORK,
        feeds=_names(options.get("feeds", ())),
        after=_names(options.get("after", ())),
        depth_max=options.get("depth_max"),
        unique=options.get("unique", False),
        tolerate=Tolerance.parse(options.get("tolerate", 0)),
        stop_early=options.get("stop_early", False),
        always=options.get("always", False),
        every_generation=options.get("generations", "every") == "every",
    )


def _sinks(name: str, options: StageOptions) -> tuple[Sink, ...]:
    given = options.get("sink", ())
    sinks = tuple(given) if isinstance(given, Sequence) else (given,)
    for sink in sinks:
        if not all(callable(getattr(sink, verb, None)) for verb in ("once", "put", "revoke", "effects")):
            raise InvalidFlow(
                f"stage {name!r}: sink={sink!r} is not a sink", 'write sink=headrace.sink("sqlite:///a.db")'
            )
    return sinks


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def check_flow(flow: object) -> None:
    """Refuse what is not a flow, such as the name of one: handlers and payload types cannot be found by a name."""
    if not isinstance(flow, Flow):
        raise CallerError(f"{flow!r} is not a Flow", "pass the object itself: flow = headrace.Flow(…)")


def _check_options(name: str, options: StageOptions) -> None:
    """Limits first: a number that cannot work is named together with what can."""
    limits: tuple[tuple[str, float, float], ...] = (
        ("concurrency", 1, CONCURRENCY_MAX),
        ("batch", 1, BATCH_MAX),
        ("batch_wait_s", 0.0, 3600.0),
        ("timeout_s", 0.001, 7 * 86_400.0),
        ("depth_max", 0, 1_000_000),
    )
    for option, least, most in limits:
        value = options.get(option, least)
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise InvalidFlow(f"stage {name!r}: {option}={value!r} must be between {least:g} and {most:g}")
    if options.get("generations", "every") not in ("every", "first"):
        raise InvalidFlow(f"stage {name!r}: generations={options['generations']!r} is neither 'every' nor 'first'")
    if options.get("transaction", OPEN) not in (RECORDED, OPEN):
        raise InvalidFlow(f"stage {name!r}: transaction={options['transaction']!r} is neither 'recorded' nor 'open'")
    if options.get("returns", REFUSE) not in (REFUSE, IGNORE):
        raise InvalidFlow(f"stage {name!r}: returns={options['returns']!r} is neither 'refuse' nor 'ignore'")
    if "retry" in options and not isinstance(options["retry"], RetryPolicy):
        raise InvalidFlow(f"stage {name!r}: retry={options['retry']!r} is not a policy", "write retry=backoff(5)")


def _check_shape(name: str, shape: Shape, options: StageOptions) -> None:
    barrier = "after" in options
    for option in ("always", "generations"):
        if option in options and not barrier:
            raise InvalidFlow(f"stage {name!r}: {option} is for barriers", 'declare it with after="…"')
    for option in ("unique", "depth_max", "batch", "batch_wait_s"):
        if option in options and barrier:
            raise InvalidFlow(f"stage {name!r}: {option} means nothing for a barrier, which has one item")
    for option in ("batch", "batch_wait_s"):
        if option in options and not shape.takes_list:
            raise InvalidFlow(
                f"stage {name!r}: {option} needs a handler that takes a list", "annotate its first parameter list[…]"
            )
    if "transaction" in options and not shape.context:
        raise InvalidFlow(
            f"stage {name!r}: transaction={options['transaction']!r} needs a handler that takes a Context",
            "add the parameter `context: Context`",
        )
    if "depth_max" in options and name not in _names(options.get("feeds", ())):
        raise InvalidFlow(f"stage {name!r}: depth_max is for a stage that feeds itself", f'add feeds="{name}"')
