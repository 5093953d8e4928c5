"""What operators do to jobs. Every verb is idempotent and takes effect in one transaction."""

from __future__ import annotations

from typing import Protocol

from headrace.core.jobs import DeadFilter


class Operations(Protocol):
    async def cancel(self, job: str) -> bool:
        """End waiting items as cancelled at once; held ones may still settle within their hold time and are
        not renewed. What they send is inserted as cancelled. False: the job had ended. `NotFound` otherwise."""

    async def cancel_item(self, job: str, stage: str, seq: int) -> bool:
        """End one item as cancelled: now if it waits, at its next return if it is held. False: it had ended."""

    async def pause(self, job: str) -> bool:
        """Nothing of this job is granted until it is resumed; what is held goes on. False: it had ended."""

    async def resume(self, job: str) -> bool:
        """Undo a pause. False: it was not paused."""

    async def redrive(self, which: DeadFilter) -> int:
        """Open a new generation in each job with matching dead letters; the number of items taken up.

        A job whose last generation is still open is left alone (`Conflict` when the filter names it). An item is the
        same item as before: it goes on from its cursor, and one that was in lost claims runs alone and revokes them.
        The one item of a barrier or external stage enters when what is redriven before it has closed."""

    async def purge(self, which: DeadFilter) -> int:
        """Forget dead letters. Their items stay dead: the tallies keep counting them, and a failed job stays failed."""

    async def retain(self) -> int:
        """Drop chunks past their job's `keep_s` and everything of jobs past 30 days; the number of rows."""

    async def close_external(self, job: str, stage: str, event_id: str) -> bool:
        """The event an external stage waits for. The first one ends its item; later ones are recorded: False.
        One that comes before the stage opens closes it as it opens."""
