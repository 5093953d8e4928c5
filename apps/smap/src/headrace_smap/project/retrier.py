"""Failed posts are tried again: their messages are told anew, under ids that derive from the request.

The account stays as it is: what goes well this time lifts its row from failed to done, and the errors shrink. The
answer counts the posts that were written down for the request, so that a repeat of it says the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from headrace.errors import Conflict
from headrace.http import new_traceparent
from headrace.ports import Event
from headrace_smap.count.completions import utc_now
from headrace_smap.count.truth import look
from headrace_smap.database import Row
from headrace_smap.envelope import Collected, Malformed, collected, data_collected, read, traced
from headrace_smap.parts import SmapParts

ROOM = 500


class Retrier:
    """Tells failed posts again."""

    def __init__(self, parts: SmapParts, now: Callable[[], datetime] = utc_now) -> None:
        self._database, self._now = parts.database, now

    async def retry(self, project: str, seed: str, traceparent: str = "") -> int:
        """Try every post again that is failed now; how many there are. The same again with the same seed adds none.
        Without the trace of a request one begins here."""
        trace = traceparent or new_traceparent()
        (truth,) = await look(self._database, [project])
        if truth.cancelled_at is not None:
            # Nobody analyses its posts any more.
            raise Conflict(f"project {project} was cancelled", "order it again")
        request, after = {"project": project, "seed": seed}, ""
        while rows := await self._database.rows("truth_failed", project=project, after=after, room=ROOM):
            after = rows[-1][0]
            events = {row[0]: event for row in rows if (event := self._event(project, row, seed)) is not None}
            if events:
                items = [{"project_id": project, "item": item} for item, *_ in rows]
                await self._database.commit(
                    ("retry_add", {**request, "items": tuple(events), "now": self._now()}),
                    ("forget_attempts", {"rows": items}),
                    events=[traced(event, trace) for event in events.values()],
                )
        ((count,),) = await self._database.rows("retry_count", **request)
        return int(count)

    def _event(self, project: str, row: Row, seed: str) -> Event | None:
        """The message as it was, with what only others know of it. None: it never named a post."""
        item, _, body = row
        try:
            post = collected(read(bytes(body))) if body else Collected(project, item)
        except Malformed:
            return None
        return replace(data_collected(post, self._now(), again=seed), key=retry_key(project))


def retry_key(project: str) -> str:
    """Apart from `project.created`: posts are tried again also where nobody subscribes to projects."""
    return f"{project}/retry"
