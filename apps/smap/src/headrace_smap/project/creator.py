"""A project comes into being: its rows and `project.created` in one commit. Everything after it is the relay's.

The order of the steps, and what a crash after each leaves behind:

1. *The commit*: order, account, project, event in the outbox. Before it nothing happened, and the client asks again.
2. *The answer is kept* for the client's repeat. A crash before it: the repeat has the same seed, so the same id, and
   every insert meets its own row.
3. *The account is opened* in the ledger by the relay of any instance, so nobody waits for a Redis that is away. Until
   then the project is shown from its rows.
4. *The event is told* by that relay. A crash before it: it is still in the outbox. A crash between telling and writing
   that down: it is told again, and consumers know a project by its id.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog

from headrace.errors import Conflict
from headrace.http import new_traceparent
from headrace.ports import Event
from headrace_smap.count.completions import utc_now
from headrace_smap.database import Step
from headrace_smap.envelope import project_created, traced
from headrace_smap.parts import SmapParts
from headrace_smap.project.orders import AcceptedOrder
from headrace_smap.receivers import Receivers
from headrace_smap.values import INITIALIZING

# The order under this id is this one: otherwise neither rows nor event may be written.
STANDS = "order_stands"

log = structlog.get_logger("smap")


class Creator:
    """Makes projects. Every call may be repeated as it is."""

    def __init__(self, parts: SmapParts, now: Callable[[], datetime] = utc_now) -> None:
        self._parts, self._now = parts, now

    async def create(
        self, project: str, order: AcceptedOrder, receivers: Receivers | None = None, traceparent: str = ""
    ) -> None:
        """Make the project, or find it made by the same order. `Conflict`: the id is somebody else's, or was. Without
        the trace of a request one begins here."""
        steps, events = self._written(project, order, traceparent)
        if receivers is not None:
            steps.append(("receivers_set", {"project": project, "receivers": receivers.stored()}))
        try:
            await self._parts.database.commit(*steps, events=events, insist=STANDS)
        except Conflict:
            raise Conflict(f"there is or was another project {project}", "leave out id, and one is made") from None
        log.info("project.created", project=project)

    async def create_crawl(self, project: str, order: AcceptedOrder) -> None:
        """Make the project of a due time; again, whatever day it is by then, the first order stands. Nothing if it or
        its parent was deleted."""
        steps, events = self._written(project, order)
        steps.append(("receivers_inherit", {"project": project, "parent": order.parent}))
        try:
            await self._parts.database.commit(*steps, events=events, insist=STANDS)
        except Conflict:
            return
        log.info("project.created", project=project, parent=order.parent)

    def _written(self, project: str, order: AcceptedOrder, traceparent: str = "") -> tuple[list[Step], list[Event]]:
        trace = traceparent or new_traceparent()
        events = [traced(event, trace) for event in self._events(project, order)]
        return [*self._steps(project, order), ("truth_trace", {"project": project, "traceparent": trace})], events

    def _events(self, project: str, order: AcceptedOrder) -> list[Event]:
        return [project_created(project, order.payload(), self._now())]

    def _steps(self, project: str, order: AcceptedOrder) -> list[Step]:
        payload = order.payload()
        stands = {"project": project, "digest": order.digest()}
        whose = {**stands, "status": INITIALIZING, "now": self._now()}
        about = {"name": order.name, "posts_max": order.posts_max, "parent": order.parent}
        columns = {name: payload[name] for name in ("keywords", "targets", "date_range")}
        return [
            ("order_insert", {**whose, **about}),
            (STANDS, stands),
            ("order_account", whose),
            ("order_project", {**whose, **columns}),
        ]
