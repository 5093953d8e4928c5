"""Series over the time out of a Prometheus."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx

from headrace.errors import OperatorError
from headrace_scheduler.rca.evidence import MetricSeries

POINTS = 120
ANSWER_S_MAX = 15.0
QUERIES = {
    "in_progress": "sum(jobs_in_progress)",
    "in_progress_share": "jobs_in_progress / (jobs_in_progress_max > 0)",
    "clock_skew": "lock_clock_skew_seconds",
    "lwt_p99": "histogram_quantile(0.99, sum by (op, le) (rate(lwt_latency_seconds_bucket[1m])))",
    "renew_failure": "sum(rate(lock_renew_failure_total[1m]))",
    "refused": "sum(rate(lock_acquire_attempt_total[1m])) - sum(rate(lock_acquire_success_total[1m]))",
    "up": "up",
}


async def read_series(url: str, since: datetime, until: datetime) -> list[MetricSeries]:
    """`OperatorError` if it does not answer."""
    step_s = max(1.0, (until - since).total_seconds() / POINTS)
    asked = {"start": since.timestamp(), "end": until.timestamp(), "step": step_s}
    found: list[MetricSeries] = []
    try:
        async with httpx.AsyncClient(base_url=url, timeout=ANSWER_S_MAX) as client:
            for name, promql in QUERIES.items():
                answer = await client.get("/api/v1/query_range", params={"query": promql, **asked})
                answer.raise_for_status()
                found += [_series(name, each) for each in answer.json()["data"]["result"]]
    except (httpx.HTTPError, ValueError, KeyError) as error:
        words = f"Prometheus at {url} did not answer with series: {type(error).__name__}"
        raise OperatorError(words, "is --prometheus its address?") from None
    return found


def _series(name: str, answer: dict[str, object]) -> MetricSeries:
    labels, values = answer["metric"], answer["values"]
    assert isinstance(labels, dict)
    assert isinstance(values, list)
    points = ((datetime.fromtimestamp(at, UTC), float(value)) for at, value in values)
    return MetricSeries(name, {key: value for key, value in labels.items() if key != "__name__"}, tuple(points))
