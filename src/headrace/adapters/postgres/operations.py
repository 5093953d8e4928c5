"""What operators do to jobs, on PostgreSQL. Every verb may be sent again after a lost answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from headrace.adapters.postgres import submissions, views
from headrace.adapters.postgres.calls import Graphs, Row, one, rows
from headrace.adapters.postgres.connections import Connection
from headrace.adapters.postgres.lanes import Lanes
from headrace.adapters.postgres.notifications import Notifications
from headrace.adapters.postgres.stops import with_stops
from headrace.core.errors import CallerError, NotFound
from headrace.core.graph import Graph, Kind
from headrace.core.jobs import DeadFilter


class PostgresOperations:
    """The operators' verbs, over the lanes and notifications of the store they are part of."""

    _lanes: Lanes
    _notifications: Notifications
    _graphs: Graphs

    async def cancel(self, job: str) -> bool:
        return await self._verb(job, "cancel", (job,))

    async def pause(self, job: str) -> bool:
        return await self._verb(job, "set_paused", (job, True))

    async def resume(self, job: str) -> bool:
        resumed = await self._verb(job, "set_paused", (job, False))
        self._ring(resumed)
        return resumed

    async def cancel_item(self, job: str, stage: str, seq: int) -> bool:
        position = (await self._graph_of(job)).position(stage)
        answer, rang = await self._ending("cancel_item", (job, position, seq))
        if answer is None:
            raise NotFound(f"there is no item {seq} in stage {stage!r} of job {job}", f"headrace jobs items {job}")
        self._ring(rang)
        return bool(answer)

    async def redrive(self, which: DeadFilter) -> int:
        def work(connection: Connection) -> tuple[int, bool]:
            return submissions.redrive(connection, self._graphs, which)

        taken, rang = await self._lanes.write(work)
        self._ring(rang)
        return taken

    async def purge(self, which: DeadFilter) -> int:
        def work(connection: Connection) -> int:
            found = rows(connection, "dead_match", asdict(which))
            places = [list(column) for column in zip(*(letter[:4] for letter in found), strict=True)]
            return int(one(connection, "dead_delete", places)[0]) if found else 0

        return await self._lanes.write(work)

    async def retain(self) -> int:
        return int((await self._call("retain"))[0])

    async def close_external(self, job: str, stage: str, event_id: str) -> bool:
        graph = await self._graph_of(job)
        position = graph.position(stage)
        if graph.stages[position].kind is not Kind.EXTERNAL:
            raise CallerError(f"stage {stage!r} is not external: its own items end it")
        first = None
        while first is None:
            first, rang = await self._call("close_external", (job, position, event_id))
            self._ring(rang)
        return bool(first)

    async def _verb(self, job: str, name: str, values: Sequence[object]) -> bool:
        (answer,) = await self._call(name, values)
        if answer is None:
            raise views.missing(job)
        return bool(answer)

    async def _call(self, name: str, values: Sequence[object] = ()) -> Row:
        return await self._lanes.write(lambda connection: one(connection, name, values))

    async def _ending(self, name: str, values: Sequence[object]) -> Row:
        """A call that may end a chunk with dead items in it, so that its job must stop."""

        def work(connection: Connection) -> Row:
            return with_stops(connection, (), lambda: one(connection, name, values))

        return await self._lanes.write(work)

    def _ring(self, rang: bool) -> None:
        if rang:
            self._notifications.ring()

    async def _graph_of(self, job: str) -> Graph:
        def read(connection: Connection) -> Graph | None:
            found = rows(connection, "job_graph", (job,))
            return self._graphs.one(connection, found[0][0]) if found else None

        graph = await self._lanes.read(read)
        if graph is None:
            raise views.missing(job)
        return graph
