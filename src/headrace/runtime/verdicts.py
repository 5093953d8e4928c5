"""From what a handler answered, or raised, to the entry in its slice."""

from __future__ import annotations

from headrace.core.claims import Again, Loss
from headrace.core.deliveries import REASON_CHARS_MAX
from headrace.core.errors import ClaimLost, InvalidPayload
from headrace.core.outcomes import Snooze
from headrace.runtime.failed_attempts import FailedAttempt
from headrace.runtime.judgement import judge, usable
from headrace.runtime.slices import Slice
from headrace.runtime.yard import Yard


def record(work: Slice, index: int, answer: BaseException, yard: Yard) -> None:
    """Enter an outcome other than done, or an error that a handler raised, and tell of a failed attempt."""
    # First of all: an item is done unless it is excluded, and whatever goes wrong in judging this one, it is not done.
    work.forgo(index)
    if isinstance(answer, ClaimLost) and answer.fence == work.fence:
        # A sink knows before the store told us: somebody else holds the item, and this is no attempt.
        return
    answer = usable(work.stage.name, answer)
    outage = yard.outages.found_in(answer, work.stage.retry)
    if outage is not None:
        work.postpone(Again(index, yard.outages.failed(work.stage, outage), work.claim.attempt))
        return
    judged = judge(answer, work.claim.attempt, work.stage.retry, yard.seams.chance)
    verdict, trail = judged.verdict, judged.trail
    if verdict.delay_s is not None:
        work.postpone(Again(index, verdict.delay_s, verdict.attempt))
    else:
        work.lose(Loss(index, verdict.reason, verdict.rule, judged.failure, verdict.attempt, trail))
    if not isinstance(answer, Snooze):
        attempt = _attempt(work, index, verdict.attempt, dead=verdict.delay_s is None)
        yard.reporter.failed(answer, attempt, verdict.reason[:REASON_CHARS_MAX], trail)


def open_slice(work: Slice, yard: Yard) -> None:
    """Decode the items of a slice whose first is about to start, and tell of those that died of it."""
    if work.started_at is None:
        work.open(yard.now())
        for loss in work.losses:
            attempt = _attempt(work, loss.index, loss.attempts, dead=True)
            yard.reporter.failed(InvalidPayload(loss.error), attempt, loss.reason, "")


def _attempt(work: Slice, index: int, number: int, dead: bool) -> FailedAttempt:
    claim = work.claim
    key = claim.keys[index] if claim.keys is not None else None
    return FailedAttempt(claim.job, claim.stage, claim.seqs[index], key, number, dead)


class RecordedFailure(Exception):
    """What an item recorded or sent could not be applied with its settlement."""
