"""The watch looks around a few times a second while anything is held or runs, so that no item needs a timer of its
own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.core.errors import HandlersHang, HeadraceError
from headrace.runtime.crew import Crew
from headrace.runtime.settler import Settler
from headrace.runtime.slices import Slice
from headrace.runtime.yard import Yard

TICK_S_MAX, TICK_S_MIN = 0.25, 0.01
# Of one worker, over all its stages. Each keeps a lane, some memory and whatever it has open until the process ends.
HUNG_MAX = 16


@dataclass(frozen=True, slots=True)
class Ends:
    """What the watch may end: a claim that is not ours any more; the worker, when it has finished what it can."""

    drop: Callable[[Slice, str], None]
    give_up: Callable[[HeadraceError], None]


class Watch:
    """Fences off what could not be renewed, times out handlers, settles long slices in parts, gives back."""

    def __init__(self, yard: Yard, crews: Sequence[Crew], settler: Settler, ends: Ends) -> None:
        self._yard, self._crews, self._settler, self._ends = yard, crews, settler, ends
        shortest = min([crew.stage.timeout_s for crew in crews], default=TICK_S_MAX)
        self.looked_at = yard.now()
        hold_s, grace_s = yard.options.hold_s, yard.options.grace_s
        self._tick_s = max(TICK_S_MIN, min(TICK_S_MAX, hold_s / 40, shortest / 4, grace_s / 2))

    async def run(self) -> None:
        yard = self._yard
        while True:
            await yard.until(self._needed)
            self.look(yard.now())
            await asyncio.sleep(self._tick_s)

    def _needed(self) -> bool:
        """A handler that goes on though its claim was lost keeps a lane busy while nothing is held."""
        return bool(self._yard.held) or any(crew.busy for crew in self._crews)

    def look(self, now: float) -> None:
        self.looked_at = now
        for work in list(self._yard.held.values()):
            if now >= work.good_until - self._yard.margin_s:
                self._ends.drop(work, "not_renewed")
            elif work.sent is None and now - work.settled_at >= self._yard.options.partial_s and work.has_news():
                self._settler.soon(work)
        for crew in self._crews:
            crew.watch(now)
            crew.release_unreachable(now)
        self._look_at_hung()

    def _look_at_hung(self) -> None:
        """Threads that hang end with their process only, and so do handlers that swallow their cancellation. So the
        worker ends before they are too many, and before a stage has no lane left."""
        hung = sum(crew.hung + crew.abandoned for crew in self._crews)
        full = [crew.stage.name for crew in self._crews if crew.hung >= crew.stage.concurrency]
        if full or hung >= HUNG_MAX:
            worst = max(self._crews, key=lambda crew: crew.hung + crew.abandoned).stage
            self._ends.give_up(
                HandlersHang(
                    f"{hung} handlers did not end after their timeout, most of them in stage {worst.name!r}",
                    "only the end of the process ends them: start it again, and let what the handler waits for have a"
                    " timeout of its own",
                )
            )
