"""Rules that find causes in evidence, offline. Each looks for the signs of one cause, says which it saw, and suggests
what a person may do; nothing is done by itself.

What comes first in `RULES` explains what comes later: a clock that is off loses locks and looks like a dead worker, a
database that is away makes jobs late. So the first cause that is found is the root, and the others are told beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from headrace_scheduler.jobs.values import RESOURCE, JobRun, JobStatus, resource_of
from headrace_scheduler.rca.evidence import Evidence, LogEvent
from headrace_scheduler.work.lost_runs import LOST

# A worker refuses to work at a skew of a tenth of the lock's time, and this is the least that this can be.
SKEW_S = 0.25
# A single call that fails is a blip that is waited out; so many are an outage.
OUTAGE_LINES = 3
OUTAGES = frozenset({"Unreachable", "Unknown", "Busy"})
# A lock outlives its worker by its time to live, and the reconciler looks within 30 s of its end: what is lost together
# is found together.
AT_ONCE = timedelta(minutes=1)
# Below this a few bad payloads would be taken for a broken handler.
FAILED_RUNS, FAILED_SHARE = 5, 0.2
# Two workers may miss a job when they race for it; one resource that is missed over and over has another holder. A row
# rests for seconds after each time, so a few say as much as many.
MISSED_LINES, MISSED_SHARE = 4, 0.5
LATE = timedelta(seconds=5)
LATE_JOBS, BUSY_SHARE = 10, 0.8
# A row that is dated far back is found within a minute; whatever is due for longer, and not begun, nobody looks for.
UNSEEN = timedelta(minutes=1)


class Cause(StrEnum):
    CLOCK_SKEW = "clock_skew"
    NODE_DOWN = "node_down"
    WORKER_DOWN = "worker_down"
    NO_WORKER = "no_worker"
    HANDLER_FAILING = "handler_failing"
    HOT_RESOURCE = "hot_resource"
    SATURATION = "saturation"


@dataclass(frozen=True, slots=True)
class RootCause:
    """`subject` is who or what it is about; `signs` is what was seen."""

    cause: Cause
    subject: str
    began_at: datetime
    signs: tuple[str, ...]
    actions: tuple[str, ...]


ACTIONS: Mapping[Cause, tuple[str, ...]] = {
    Cause.CLOCK_SKEW: (
        "Let NTP set the clocks of the workers and of the Cassandra nodes, and compare them: `chronyc tracking`.",
        "Stop the worker that is named until its clock is right; its jobs go to the others.",
    ),
    Cause.NODE_DOWN: (
        "Look at the nodes: `nodetool status`, `headrace scheduler doctor`, and start what is down.",
        "Nothing that was accepted is lost: workers go on by themselves, and the reconciler puts back lost runs.",
    ),
    Cause.WORKER_DOWN: (
        "See how the worker ended, or whether it hangs: its log, its supervisor, `dmesg` (was memory short?).",
        "Its jobs run elsewhere. One that kills its workers becomes a dead job of the class `worker_lost`: `GET /dlq`.",
    ),
    Cause.NO_WORKER: (
        "Start one: `headrace scheduler worker`, or `all`; `headrace scheduler doctor` says what answers.",
        "If one is up, see whether it has the same tables and a clock that is right: its `/readyz`, its log.",
    ),
    Cause.HANDLER_FAILING: (
        "Look at what the dead jobs have in common: `GET /dlq`; mend the handler or what it calls.",
        "Then let them run again: `POST /dlq/{job_id}/redrive`.",
    ),
    Cause.HOT_RESOURCE: (
        "See who holds it, and since when: `headrace scheduler locks show RESOURCE`, `locks watch`.",
        "If its holder is gone or stuck: `headrace scheduler locks release RESOURCE --force`; it is audited.",
    ),
    Cause.SATURATION: (
        "Start more workers, or raise WORKER_MAX_IN_PROGRESS where the machine has room.",
        "Spread jobs over time, or shorten the slowest ones.",
    ),
}


def find_causes(evidence: Evidence) -> list[RootCause]:
    """The root first; none if nothing looks wrong."""
    return [found for rule in RULES if (found := rule(evidence)) is not None]


def clock_skew(evidence: Evidence) -> RootCause | None:
    """A series says so, a worker refused to work, or a later grant of a lock is dated earlier."""
    signs: list[tuple[datetime, str, str]] = []
    for series in evidence.named("clock_skew"):
        off = [(at, value) for at, value in series.points if abs(value) > SKEW_S]
        if off:
            instance, most = series.labels.get("instance", "a worker"), max((value for _, value in off), key=abs)
            signs.append((off[0][0], instance, f"the clock of {instance} was off by up to {most:+.2f} s"))
    refused = [event for event in evidence.events if event.fields.get("error") == "ClockSkewed"]
    if refused:
        signs.append((refused[0].at, "a worker", f"{len(refused)} lines say ClockSkewed: a worker refused to work"))
    for before, after in _grants(evidence.runs):
        assert before.start_at is not None
        assert after.start_at is not None
        if before.start_at - after.start_at > timedelta(seconds=SKEW_S):
            gap_s = (before.start_at - after.start_at).total_seconds()
            words = f"{before.worker_id} dated a run {gap_s:.1f} s after one with a higher token by {after.worker_id}"
            workers = dict.fromkeys((str(before.worker_id), str(after.worker_id)))
            signs.append((after.start_at, " or ".join(workers), words))
    return _cause(Cause.CLOCK_SKEW, signs)


def node_down(evidence: Evidence) -> RootCause | None:
    """The tables did not answer. Without a log, several workers that lost runs at once say so."""
    failing = _failing(evidence)
    lost = [run for run in _lost(evidence) if _by_outage(evidence, run)]
    signs: list[tuple[datetime, str, str]] = []
    if failing:
        classes = ", ".join(sorted({event.fields.get("error", event.event) for event in failing}))
        words = f"{len(failing)} calls to the tables failed from {_time(failing[0].at)} to {_time(failing[-1].at)}"
        signs.append((failing[0].at, "Cassandra", f"{words} ({classes})"))
    if lost:
        workers = len({run.worker_id for run in lost})
        words = f"{workers} worker{'s' * (workers > 1)} lost {len(lost)} runs at that time"
        signs.append((_first(evidence, lost), "Cassandra", words))
    return _cause(Cause.NODE_DOWN, signs)


def worker_down(evidence: Evidence) -> RootCause | None:
    """A worker left runs behind that it never ended, while the tables answered."""
    lost = [run for run in _lost(evidence) if not _by_outage(evidence, run)]
    signs: list[tuple[datetime, str, str]] = []
    for worker, count in Counter(str(run.worker_id) for run in lost).most_common(5):
        began = _first(evidence, [run for run in lost if str(run.worker_id) == worker])
        words = f"{worker} began {count} run{'s' * (count > 1)} that it never ended, and its locks are over"
        signs.append((began, worker, words))
    if signs:
        gone = [(each, [at for at, value in each.points if value == 0]) for each in evidence.named("up")]
        gone = [(each, moments) for each, moments in gone if moments and any(value for _, value in each.points)]
        for each, moments in gone[:5]:
            instance = each.labels.get("instance", "a process")
            signs.append((moments[0], instance, f"{instance} was not there for Prometheus at {_time(moments[0])}"))
    return _cause(Cause.WORKER_DOWN, signs)


def no_worker(evidence: Evidence) -> RootCause | None:
    """Jobs are due that never began, nothing runs, and nothing has begun since the first of them was due."""
    begun = {run.job_id for run in evidence.runs}
    waiting = [
        job.scheduled_time
        for job in evidence.jobs
        if job.status == JobStatus.PENDING and evidence.until - job.scheduled_time > UNSEEN and job.job_id not in begun
    ]
    # A job that runs may have been due before the time that is looked at: then its lock tells of it.
    runs = any(lock.resource.startswith(RESOURCE) and not lock.expired for lock in evidence.locks)
    if not waiting or runs or any(run.start_at and run.start_at > min(waiting) for run in evidence.runs):
        return None
    one = len(waiting) == 1
    words = f"{len(waiting)} job{'' if one else 's'} due since {_time(min(waiting))} wait{'s' if one else ''}"
    sign = f"{words}, and nothing has begun since"
    return _cause(Cause.NO_WORKER, [(min(waiting), "no worker looks for jobs", sign)])


def handler_failing(evidence: Evidence) -> RootCause | None:
    """Runs end badly, and most of them by one class of error."""
    failed = [run for run in evidence.runs if run.status == JobStatus.FAILED]
    ended = [run for run in evidence.runs if run.end_at is not None]
    if len(failed) < FAILED_RUNS or len(failed) < FAILED_SHARE * len(ended):
        return None
    logged = Counter(event.fields["error_class"] for event in evidence.events if "error_class" in event.fields)
    classes = logged or Counter(dead.error_class for dead in evidence.dead)
    kinds = Counter(dead.kind for dead in evidence.dead)
    subject = classes.most_common(1)[0][0] if classes else "failures"
    signs = [f"{len(failed)} of {len(ended)} runs that ended have failed"]
    signs += [f"{count} failures are {name}" for name, count in classes.most_common(5)]
    signs += [f"{count} dead jobs are of the type {name}" for name, count in kinds.most_common(5)]
    at = min((run.start_at for run in failed if run.start_at is not None), default=evidence.since)
    return RootCause(Cause.HANDLER_FAILING, subject, at, tuple(signs), ACTIONS[Cause.HANDLER_FAILING])


def hot_resource(evidence: Evidence) -> RootCause | None:
    """Workers ask for one lock over and over, and do not get it."""
    missed = [event for event in evidence.events if event.event == "run.missed" and "resource" in event.fields]
    counts = Counter(event.fields["resource"] for event in missed)
    if not counts:
        return _contended(evidence)
    resource, count = counts.most_common(1)[0]
    if count < MISSED_LINES or count < MISSED_SHARE * len(missed):
        return None
    signs = [f"{resource} was asked for {count} times in vain, of {len(missed)} such attempts"]
    signs += [
        f"{lock.holder} holds it under the token {lock.token}" for lock in evidence.locks if lock.resource == resource
    ]
    at = next(event.at for event in missed if event.fields["resource"] == resource)
    return RootCause(Cause.HOT_RESOURCE, resource, at, tuple(signs), ACTIONS[Cause.HOT_RESOURCE])


def _contended(evidence: Evidence) -> RootCause | None:
    """The same without logs: locks are refused, and one is held whose job is due and waits. Series say how often, not
    for which lock."""
    refused = [(at, value) for series in evidence.named("refused") for at, value in series.points if value > 0]
    steps = {len(series.points) for series in evidence.named("refused")}
    times = sum(value for _, value in refused) * evidence.span.total_seconds() / max(steps, default=1)
    waiting = {
        resource_of(job.job_id)
        for job in evidence.jobs
        if job.status == JobStatus.PENDING and evidence.until - job.scheduled_time > LATE
    }
    held = [lock for lock in evidence.locks if not lock.expired and lock.resource in waiting]
    if times < MISSED_LINES or not held:
        return None
    signs = [f"locks were refused about {times:,.0f} times"]
    signs += [f"{lock.holder} holds {lock.resource} under the token {lock.token}, and its job waits" for lock in held]
    return RootCause(Cause.HOT_RESOURCE, held[0].resource, refused[0][0], tuple(signs[:5]), ACTIONS[Cause.HOT_RESOURCE])


def saturation(evidence: Evidence) -> RootCause | None:
    """Workers are busy all the time, and jobs wait all the same."""
    signs: list[tuple[datetime, str, str]] = []
    for series in evidence.named("in_progress_share"):
        full = [at for at, value in series.points if value >= 1]
        if len(full) >= max(5, BUSY_SHARE * len(series.points)):
            instance = series.labels.get("instance", "a worker")
            signs.append((full[0], instance, f"{instance} held as many jobs as it may nearly all the time"))
    late, busy = _late(evidence), _busy_share(evidence.runs, evidence.until)
    if len(late) >= LATE_JOBS and busy >= BUSY_SHARE:
        words = f"{len(late)} jobs began, or still wait, more than {LATE.total_seconds():g} s after they were due"
        signs.append((min(late), "the workers", f"{words}, while workers were busy {busy:.0%} of the time"))
    return _cause(Cause.SATURATION, signs)


RULES: Sequence[Callable[[Evidence], RootCause | None]] = (
    clock_skew,
    node_down,
    worker_down,
    no_worker,
    handler_failing,
    hot_resource,
    saturation,
)


def _cause(cause: Cause, signs: Sequence[tuple[datetime, str, str]]) -> RootCause | None:
    if not signs:
        return None
    return RootCause(cause, signs[0][1], min(at for at, _, _ in signs), tuple(s for _, _, s in signs), ACTIONS[cause])


def _outage(event: LogEvent) -> bool:
    if event.event == "http.not_ready":
        return event.fields.get("check") == "tables"
    return event.fields.get("error") in OUTAGES


def _failing(evidence: Evidence) -> list[LogEvent]:
    """Calls to the tables that failed, if there are enough of them for an outage."""
    found = [event for event in evidence.events if _outage(event)]
    return found if len(found) >= OUTAGE_LINES else []


def _by_outage(evidence: Evidence, run: JobRun) -> bool:
    """Whether a run was lost because the tables were away. Where there are logs they say it; where there are none, a
    process dies alone and a database takes all workers with it."""
    if evidence.events:
        failing = _failing(evidence)
        began, ended = run.start_at or evidence.since, run.end_at or evidence.until
        return bool(failing) and failing[0].at <= ended + AT_ONCE and began <= failing[-1].at + AT_ONCE
    if run.end_at is None:
        return False
    others = (each for each in _lost(evidence) if each.worker_id != run.worker_id and each.end_at is not None)
    return any(abs(each.end_at - run.end_at) <= AT_ONCE for each in others if each.end_at is not None)


def _first(evidence: Evidence, runs: Sequence[JobRun]) -> datetime:
    return min((run.start_at for run in runs if run.start_at is not None), default=evidence.since)


def _grants(runs: Sequence[JobRun]) -> Iterator[tuple[JobRun, JobRun]]:
    """Runs of a job that follow each other by their tokens, which only rise."""
    known = [run for run in runs if run.start_at is not None and run.fencing_token is not None]
    known.sort(key=lambda run: (str(run.job_id), run.fencing_token or 0))
    return ((before, after) for before, after in pairwise(known) if before.job_id == after.job_id)


def _lost(evidence: Evidence) -> list[JobRun]:
    """Runs that the reconciler ended for their worker; and those without an end, after which the job was run again or
    whose lock has expired."""
    over = {lock.resource for lock in evidence.locks if lock.expired}
    again = {before.run_id for before, _ in _grants(evidence.runs)}
    left = [run for run in evidence.runs if run.end_at is None]
    ended = [run for run in evidence.runs if run.status == LOST]
    return ended + [run for run in left if run.run_id in again or resource_of(run.job_id) in over]


def _late(evidence: Evidence) -> list[datetime]:
    """When jobs were due that began late, or wait still."""
    first: dict[object, datetime] = {}
    for run in evidence.runs:
        if run.start_at is not None:
            first[run.job_id] = min(run.start_at, first.get(run.job_id, run.start_at))
    begun = ((job.scheduled_time, first.get(job.job_id, evidence.until)) for job in evidence.jobs)
    return [due for due, at in begun if at - due > LATE]


def _busy_share(runs: Sequence[JobRun], until: datetime) -> float:
    """The part of the time, from the first run to the last, in which something ran."""
    spans = sorted((run.start_at, run.end_at or until) for run in runs if run.start_at is not None)
    if not spans:
        return 0.0
    busy, reached = timedelta(), spans[0][0]
    for began, ended in spans:
        busy += max(timedelta(), ended - max(began, reached))
        reached = max(reached, ended)
    whole = reached - spans[0][0]
    return busy / whole if whole else 0.0


def _time(at: datetime) -> str:
    return at.strftime("%H:%M:%S")
