"""Views as JSON documents with stable keys, and as rows for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.core.jobs import DeadView, FinishView, ItemView, JobView
from headrace.core.tally import Tally

PAYLOAD_CHARS_SHOWN = 80


def moment(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def second(at: float) -> str:
    """A moment to the second, in universal time, for lists."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%SZ}"


def payload_line(payload: Any) -> str:
    line = msgspec.json.encode(payload).decode()
    return line if len(line) <= PAYLOAD_CHARS_SHOWN else f"{line[: PAYLOAD_CHARS_SHOWN - 1]}…"


def tally_document(tally: Tally) -> dict[str, Any]:
    return msgspec.to_builtins(tally)  # type: ignore[no-any-return]


def job_document(job: JobView) -> dict[str, Any]:
    return {
        "id": job.id,
        "flow": job.flow,
        "tenant": job.tenant,
        "state": job.state.value,
        "paused": job.paused,
        "generation": job.generation,
        "priority": job.priority,
        "key": job.key,
        "submitted_at": moment(job.submitted_at),
        "ended_at": moment(job.ended_at),
        "stages": {name: tally_document(tally) for name, tally in job.stages.items()},
    }


def finish_document(finish: FinishView) -> dict[str, Any]:
    return {
        "generation": finish.generation,
        "state": finish.state.value,
        "event_id": finish.event_id,
        "crossed_at": moment(finish.crossed_at),
        "stages": {name: tally_document(tally) for name, tally in finish.stages.items()},
    }


def item_document(item: ItemView) -> dict[str, Any]:
    return {
        "stage": item.stage,
        "seq": item.seq,
        "key": item.key,
        "state": item.state,
        "due_at": moment(item.due_at),
        "retries": item.retries,
        "payload": item.payload,
    }


def dead_document(dead: DeadView) -> dict[str, Any]:
    return {
        "job": dead.job,
        "generation": dead.generation,
        "stage": dead.stage,
        "seq": dead.seq,
        "key": dead.key,
        "reason": dead.reason,
        "rule": dead.rule,
        "error": dead.error,
        "fingerprint": dead.fingerprint,
        "attempts": dead.attempts,
        "died_at": moment(dead.died_at),
        "redriven_in": dead.redriven_in,
        "traceback": dead.traceback,
        "payload": dead.payload,
    }
