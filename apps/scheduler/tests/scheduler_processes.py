"""Services of the scheduler as real processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from waiting import until

from headrace.testing import ServiceProcess
from headrace_scheduler.frame import service_program

ENDED_S_MAX = 120.0
QUICK = {
    "LOCK_TTL_MS": "1500",
    "WORKER_BACKOFF_BASE_MS": "20",
    "WORKER_POLL_INTERVAL_MS": "100",
    "WORKER_COMMAND_ALLOW": "/bin/sh",
}
# To make a client takes longer than most requests, since it reads the certificates of all authorities.
# A connection for each request: one that is kept may be closed just when it is used again.
CLIENT = httpx.Client(timeout=60.0, verify=False, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))


class Process(ServiceProcess):
    """One service by its command, on any port."""

    def __init__(self, name: str, environment: Mapping[str, str], folder: Path) -> None:
        log = folder / f"{name}-{len(list(folder.glob('*.log')))}.log"
        super().__init__(service_program(name, environment), log, folder)

    def get(self, path: str) -> httpx.Response:
        return CLIENT.get(f"{self.url}{path}")

    def post(self, path: str, document: Any = None, **headers: str) -> httpx.Response:
        return CLIENT.post(f"{self.url}{path}", json=document, headers=headers)


@contextmanager
def services(environment: Mapping[str, str], folder: Path, *names: str) -> Iterator[list[Process]]:
    """Started side by side; whatever still runs at the end is killed."""
    started = [Process(name, environment, folder) for name in names]
    try:
        for each in started:
            assert each.url
        yield started
    finally:
        for each in started:
            each.kill()


def job(payload: Mapping[str, Any], seconds: float = 60) -> dict[str, Any]:
    return {"schedule": "now", "payload": payload, "max_duration_seconds": seconds}


def made(api: Process, payload: Mapping[str, Any], seconds: float = 60) -> str:
    """The id of a job that was accepted."""
    answer = api.post("/jobs", job(payload, seconds))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


def ended(api: Process, job_id: str, status: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        document: dict[str, Any] = api.get(f"/jobs/{job_id}").json()
        return document if document["status"] == status else None

    return until(look, lambda: f"{status}: {api.get(f'/jobs/{job_id}').text}", ENDED_S_MAX)


def held(api: Process, job_id: str, workers: Sequence[Process]) -> tuple[dict[str, Any], Process]:
    """The run of a job that is under way, and the worker whose it is."""
    run: dict[str, Any] = until(lambda: api.get(f"/jobs/{job_id}").json()["last_run"], "it runs")
    (holder,) = [each for each in workers if f":{each.pid}:" in run["worker_id"]]
    return run, holder
