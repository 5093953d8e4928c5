"""The tables in Cassandra, and what makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path
from typing import TypeVar

from headrace.errors import HeadraceError
from headrace.services import Pauses
from headrace.tables import CassandraTables, KeyspacePart, Row
from headrace_scheduler.tables.job_tables import Write

Answer = TypeVar("Answer")

# A request must be answered within 15 s; one statement takes 5 s at most.
RESEND_S_MAX = 8.0
CONDITIONAL = frozenset(
    {
        "setting_record",
        "setting_change",
        "key_begin",
        "key_hold",
        "key_finish",
        "key_release",
        "cron_add",
        "cron_claim",
        "cron_confirm",
        "cron_change",
        "cron_delete",
        "fire_add",
        "queue_add",
        "tokens_delete",
    }
)


class CassandraJobTables:
    """`JobTables` on a session."""

    def __init__(self, session: CassandraTables) -> None:
        self._session = session

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        if name in CONDITIONAL:
            return await self._session.rows(name, **values)
        return await _resent(lambda: self._session.rows(name, **values))

    async def together(self, *writes: Write) -> None:
        await _resent(lambda: self._session.run_together(*writes))

    async def answers(self) -> object:
        """One light query, asked once."""
        return await self._session.rows("answers")


async def _resent(send: Callable[[], Awaitable[Answer]]) -> Answer:
    """Sent until it is answered: the same again changes nothing."""
    pauses, loop = Pauses(), asyncio.get_running_loop()
    until = loop.time() + RESEND_S_MAX
    while True:
        try:
            return await send()
        except HeadraceError as error:
            pause_s = pauses.next_s()
            if not error.heals or loop.time() + pause_s >= until:
                raise
        await asyncio.sleep(pause_s)


def schema_part() -> KeyspacePart:
    """The scheduler's tables, from `infra/schema.cql`: in the wheel beside the code, in a checkout beside `src`."""
    packed = resources.files("headrace_scheduler") / "infra" / "schema.cql"
    checkout = Path(__file__).parents[3] / "infra" / "schema.cql"
    return KeyspacePart((packed if packed.is_file() else checkout).read_text("utf-8"))
