"""A coroutine that takes no step after its hold has ended.

A timer that cancels it is not enough: a process that was frozen, or a loop that was blocked, finds the timer and the
coroutine's next step due in the same turn, and the step may come first. So the clock is asked before each step, also
before one that is an error: a coroutine that expects it goes on behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from headrace.core.errors import Unknown

T = TypeVar("T")


class HoldEnded(BaseException):
    """Raised where a coroutine waits when its hold is over.

    Not an `Exception`, which it might catch and go on after, and not a cancellation: a timeout of its own that expired
    in the same turn would take that for its own and turn it into a `TimeoutError`.
    """


class Fenced(Coroutine[Any, Any, T]):
    """The coroutine `inner`, ended where it waits once `over` says so. What is cancelled earlier, while there is time
    left, may clean up."""

    def __init__(self, inner: Coroutine[Any, Any, T], over: Callable[[], bool]) -> None:
        self._inner, self._over = inner, over

    def send(self, value: Any) -> Any:
        return self._inner.throw(HoldEnded()) if self._over() else self._inner.send(value)

    def throw(self, kind: Any, value: BaseException | object = None, traceback: TracebackType | None = None, /) -> Any:
        if self._over():
            return self._inner.throw(HoldEnded())
        return self._inner.throw(kind) if value is None else self._inner.throw(kind, value, traceback)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, T]:
        step = partial(self.send, None)
        while True:
            try:
                waits_for = step()
            except StopIteration as end:
                answer: T = end.value
                return answer
            try:
                step = partial(self.send, (yield waits_for))
            except GeneratorExit:
                self.close()
                raise
            except BaseException as error:
                step = partial(self.throw, error)


async def while_held(call: Coroutine[Any, Any, T], seconds: float) -> T:
    """What a coroutine answers that takes a lock for so many seconds and works under it, without renewals. It is
    counted from here, before the lock is asked for. `Unknown` if it was not done in time: a process that was frozen
    finds the lock with another, who may have done it all meanwhile, and writes nothing more."""
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    try:
        return await Fenced(call, lambda: clock() >= until)
    except HoldEnded:
        raise Unknown(f"it was not done within the {seconds:g} s that its lock is held") from None
