"""The inbox on PostgreSQL: a message enters the account in the transaction that applies its consequence."""

from __future__ import annotations

from collections.abc import Callable

from headrace.adapters.postgres import ledger, submissions, views
from headrace.adapters.postgres.calls import Graphs, one, rows
from headrace.adapters.postgres.connections import Connection
from headrace.adapters.postgres.lanes import Lanes
from headrace.adapters.postgres.outbox import add_events
from headrace.core.consequences import Consequence, Consumed
from headrace.core.errors import CallerError
from headrace.core.events import check_event
from headrace.core.graph import Kind
from headrace.core.ledgers import insist

Ring = Callable[[bool], None]


class PostgresInbox:
    """`ports.outbox.Inbox` in one database. `ring` wakes the idle after a commit."""

    def __init__(self, lanes: Lanes, graphs: Graphs, ring: Ring) -> None:
        self._lanes, self._graphs, self._ring = lanes, graphs, ring

    async def consume(self, subscription: str, event_id: str, consequence: Consequence) -> Consumed:
        for event in consequence.events:
            check_event(event)

        def work(connection: Connection) -> tuple[Consumed, bool]:
            with connection.transaction():
                if not rows(connection, "inbox_insert", (subscription, event_id)):
                    return Consumed(False), False
                return _apply(connection, self._graphs, event_id, consequence)

        consumed, rang = await self._lanes.write(work)
        self._ring(rang)
        return consumed


def _apply(connection: Connection, graphs: Graphs, event_id: str, consequence: Consequence) -> tuple[Consumed, bool]:
    rang = False
    submitted = []
    for submission in consequence.submissions:
        made, rung = submissions.submit(connection, submission)
        submitted.append(made)
        rang = rang or rung
    closed = []
    for job, stage in consequence.closes:
        first, rung = _close_external(connection, graphs, (job, stage), event_id)
        closed.append(first)
        rang = rang or rung
    posted = tuple(insist(posting, ledger.post(connection, posting)) for posting in consequence.postings)
    told = bool(consequence.events) and any(add_events(connection, consequence.events))
    rang = rang or told or any(each.crossed for each in posted)
    return Consumed(True, tuple(submitted), tuple(closed), posted), rang


def _close_external(connection: Connection, graphs: Graphs, where: tuple[str, str], event_id: str) -> tuple[bool, bool]:
    job, stage = where
    found = rows(connection, "job_graph", (job,))
    if not found:
        raise views.missing(job)
    graph = graphs.one(connection, found[0][0])
    position = graph.position(stage)
    if graph.stages[position].kind is not Kind.EXTERNAL:
        raise CallerError(f"stage {stage!r} is not external: its own items end it")
    first = None
    while first is None:
        first, rang = one(connection, "close_external", (job, position, event_id))
    return bool(first), bool(rang)
