"""What a handler looks like: read once, at declaration, and refused with words if it cannot work.

The first parameter is the payload (`list[T]`: a list handler), or for a barrier the tally. Further parameters are found
by their annotation: `Out` and `Context`. Anything else must have a default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from headrace.core.errors import InvalidFlow
from headrace.core.tally import Tally
from headrace.runtime.context import Context, Out

Handler = TypeVar("Handler", bound=Callable[..., Any])
Answer = Coroutine[Any, Any, Any] | Any


@dataclass(frozen=True, slots=True)
class Shape:
    """How to call a handler. `payload` is the type of one item; `tally` is "" (it takes none), "sum" or "each".

    `awaits`: calling it runs nothing and gives a coroutine, so it is called on the event loop; everything else is
    called in a thread, and what it returns is awaited on the loop if it can be. `awaits_within`: the function below its
    decorators is async.
    """

    handler: Callable[..., Any]
    awaits: bool
    awaits_within: bool
    takes_list: bool
    takes_item: bool
    payload: Any
    tally: str = ""
    out: str = ""
    context: str = ""

    def bind(self, out: Out, context: Context) -> Callable[[Any], Answer]:
        """The handler as a function of its item alone, with one lane's `Out` and `Context` built in."""
        extras: dict[str, Any] = {}
        if self.out:
            extras[self.out] = out
        if self.context:
            extras[self.context] = context
        handler = partial(self.handler, **extras) if extras else self.handler
        if self.takes_item:
            return handler
        return lambda _item: handler()

    def barrier_item(self, tallies: Mapping[str, Tally]) -> Any:
        """What a barrier's handler gets for its one item."""
        if self.tally == "each":
            return dict(tallies)
        counts = list(tallies.values())
        return sum(counts[1:], counts[0]) if counts else Tally()


def read_handler(stage: str, handler: Callable[..., Any], barrier: bool) -> Shape:
    """The shape of a handler, or `InvalidFlow` with what is wrong about it."""
    function = _function(stage, handler)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidFlow(
            f"stage {stage!r}: a handler does not yield", "take an `out: Out` parameter and call out.send(…)"
        )
    hints = _hints(stage, function)
    names = {Out: "", Context: ""}
    first: tuple[str, Any] | None = None
    for position, parameter in enumerate(inspect.signature(handler).parameters.values()):
        hint = hints.get(parameter.name, Any)
        if hint in (Out, Context):
            _claim_extra(stage, names, hint, parameter)
        elif position == 0 and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            first = (parameter.name, hint)
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise InvalidFlow(
                f"stage {stage!r}: nothing is known to give the parameter {parameter.name!r}",
                "the first parameter is the payload; others are annotated Out or Context, or have a default",
            )
    read = _barrier_shape if barrier else _work_shape
    takes_list, payload, tally = read(stage, first)
    return Shape(
        handler,
        inspect.iscoroutinefunction(function),
        inspect.iscoroutinefunction(inspect.unwrap(function)),
        takes_list,
        first is not None,
        payload,
        tally,
        names[Out],
        names[Context],
    )


def _function(stage: str, handler: Callable[..., Any]) -> Callable[..., Any]:
    """The function that is called in the end: below partials, or the `__call__` of an object."""
    function: Any = handler
    while isinstance(function, partial):
        function = function.func
    if callable(function) and not (inspect.isroutine(function) or inspect.isclass(function)):
        function = function.__call__
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise InvalidFlow(f"stage {stage!r}: the handler must be a function, not {handler!r}")
    return function


def _hints(stage: str, handler: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(handler)
    except (NameError, TypeError) as error:
        raise InvalidFlow(
            f"stage {stage!r}: the annotations of its handler cannot be read: {error}",
            "payload types must be importable where the handler is defined: at module level, not under TYPE_CHECKING",
        ) from None


def _claim_extra(stage: str, names: dict[Any, str], hint: Any, parameter: inspect.Parameter) -> None:
    if names[hint]:
        raise InvalidFlow(f"stage {stage!r}: its handler takes {hint.__name__} twice")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise InvalidFlow(f"stage {stage!r}: the parameter {parameter.name!r} cannot be positional only")
    names[hint] = parameter.name


def _work_shape(stage: str, first: tuple[str, Any] | None) -> tuple[bool, Any, str]:
    if first is None:
        raise InvalidFlow(
            f"stage {stage!r}: its handler takes no payload", "write `async def handler(item: MyPayload, …)`"
        )
    hint = first[1]
    if hint is Tally or get_args(hint) == (str, Tally):
        raise InvalidFlow(f"stage {stage!r}: only a barrier gets a Tally", 'declare it with after="…"')
    if hint is list:
        return True, Any, ""
    if get_origin(hint) is list:
        return True, get_args(hint)[0], ""
    return False, hint, ""


def _barrier_shape(stage: str, first: tuple[str, Any] | None) -> tuple[bool, Any, str]:
    if first is None:
        return False, Any, ""
    hint = first[1]
    if hint is Tally or hint is Any:
        return False, Any, "sum"
    if get_origin(hint) in (dict, Mapping) and get_args(hint) == (str, Tally):
        return False, Any, "each"
    raise InvalidFlow(
        f"stage {stage!r} comes after others: it gets their tally, not a payload",
        "annotate the parameter `Tally` or `dict[str, Tally]`, or leave it away",
    )
