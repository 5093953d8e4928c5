"""Posts whose message came back because its consumer was lost: one of them may have ended it.

Whoever begins to analyse such posts says so in the database first, once per life of a process, and takes it back as
soon as that is over, however it ended: waiting for a server, a stop and a restart charge nobody. So a post is only ever
charged for a process that vanished while it was being analysed. The first times it is analysed together with other
suspects, then alone, and at last not any more. One group of suspects is begun at a time in a process: an innocent
neighbour is charged no more than it is together with others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from headrace.errors import suppress_healing
from headrace_smap.analytics.posts import Fault, HandledPost
from headrace_smap.database import Database, Step

TOGETHER_MAX = 2
ATTEMPTS_MAX = 5
RULE = "worker_lost"
LOST = f"the process that analysed this post was lost {ATTEMPTS_MAX} times"


class Suspects:
    """`charge` names this life of this process. Whoever deals with suspects has the `turn`."""

    def __init__(self, database: Database, charge: str) -> None:
        self._database, self._charge = database, charge
        self.turn = asyncio.Lock()

    async def grouped(self, posts: Sequence[HandledPost]) -> list[list[HandledPost]]:
        """In which groups to deal with them; those that had their chances have a fault."""
        rows = await self._database.rows("count_attempts", rows=_names(posts), charge=self._charge)
        attempts = {(project, item): count for project, item, count in rows}
        together, alone = [], []
        for post in posts:
            count = attempts.get(post.name, 0)
            post.deliveries = max(post.deliveries, count + 1)
            if count >= ATTEMPTS_MAX:
                post.fault = Fault(RULE, LOST)
            if count < TOGETHER_MAX:
                together.append(post)
            else:
                alone.append([post])
        return [together, *alone] if together else alone

    async def begin(self, posts: Sequence[HandledPost]) -> None:
        """From now on these are charged, if nobody takes it back."""
        now = datetime.now(UTC)
        await self._database.rows("begin_attempts", rows=_names(posts), charge=self._charge, now=now)

    async def take_back(self, posts: Sequence[HandledPost]) -> None:
        """They did not end this process. What cannot be taken back now is so when they are settled."""
        with suppress_healing():
            await self._database.rows("take_back_attempts", rows=_names(posts), charge=self._charge)

    def forgotten(self, posts: Sequence[HandledPost]) -> list[Step]:
        """What a settlement takes back. A post that was given up stays so: its message may come once more."""
        names = _names([post for post in posts if post.suspect and not (post.fault and post.fault.rule == RULE)])
        return [("forget_attempts", {"rows": names})] if names else []


def _names(posts: Sequence[HandledPost]) -> list[dict[str, str]]:
    return [{"project_id": post.project, "item": post.item} for post in posts]
