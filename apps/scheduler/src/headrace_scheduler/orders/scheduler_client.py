"""Jobs for the scheduler, from the outbox of orders to its REST interface.

It is what a relay publishes to. The key of an event is the Idempotency-Key of its request: what is sent again after a
lost answer is the same job. While the scheduler or its tables are away, events wait in the outbox and orders in their
status.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from headrace.errors import CallerError, TryAgain, Unreachable
from headrace.ports import Event
from headrace_scheduler.orders.settings import OrdersSettings

if TYPE_CHECKING:
    import httpx

AT_A_TIME = 16
ANSWER_S_MAX = 20.0
# Refused for now: in flight, too many, or not well.
_LATER = (408, 409, 425, 429)


class SchedulerClient:
    """Creates the jobs that events ask for."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def publish(self, events: Sequence[Event]) -> list[bool]:
        """All are known to the scheduler when this returns."""
        for first in range(0, len(events), AT_A_TIME):
            requests = (self._create(event) for event in events[first : first + AT_A_TIME])
            answers = await asyncio.gather(*requests, return_exceptions=True)
            for error in answers:
                if error is not None:
                    raise error
        return [True] * len(events)

    async def _create(self, event: Event) -> None:
        import httpx

        headers = {"Idempotency-Key": event.event_id, "Content-Type": "application/json"}
        try:
            answer = await self._client.post("/jobs", content=event.body, headers=headers)
        except httpx.HTTPError as error:
            raise Unreachable(f"the scheduler does not answer: {type(error).__name__} {error}") from error
        if answer.status_code in _LATER or answer.status_code >= 500:
            raise TryAgain(f"the scheduler answered {answer.status_code}")
        if not answer.is_success:
            raise CallerError(f"the scheduler refused {event.event_id} with {answer.status_code}: {answer.text[:200]}")


@asynccontextmanager
async def open_scheduler_client(settings: OrdersSettings) -> AsyncIterator[SchedulerClient]:
    import httpx

    headers = {"X-API-Key": settings.worker_api_key} if settings.worker_api_key else {}
    async with httpx.AsyncClient(
        base_url=settings.worker_url, timeout=ANSWER_S_MAX, trust_env=False, headers=headers
    ) as client:
        yield SchedulerClient(client)
