"""From what a handler answered, or raised, to the entry in its slice."""

from __future__ import annotations

import traceback

from headrace.core.claims import ERROR_CHARS_MAX, Again, Loss
from headrace.core.deliveries import REASON_CHARS_MAX
from headrace.core.errors import ClaimLost, InvalidFlow, InvalidPayload, TransactionEnded
from headrace.core.outcomes import Dead, Outcome, Retry, Snooze, flaw
from headrace.core.redaction import redacted_text
from headrace.core.retry import RetryPolicy, decide
from headrace.runtime.failed_attempts import FailedAttempt, in_words, trace
from headrace.runtime.slices import Slice
from headrace.runtime.yard import Yard

NOT_DONE = (Retry, Dead, Snooze)
TIMED_OUT = "timeout"


def record(work: Slice, index: int, answer: BaseException, yard: Yard) -> None:
    """Enter an outcome other than done, or an error that a handler raised, and tell of a failed attempt."""
    # First of all: an item is done unless it is excluded, and whatever goes wrong in judging this one, it is not done.
    work.forgo(index)
    if isinstance(answer, ClaimLost) and answer.fence == work.fence:
        # A sink knows before the store told us: somebody else holds the item, and this is no attempt.
        return
    if words := flaw(answer):
        answer = unusable(work.stage.name, words, answer)
    outage = yard.outages.found_in(answer, work.stage.retry)
    if outage is not None:
        work.postpone(Again(index, yard.outages.failed(work.stage, outage), work.claim.attempt))
        return
    outcome, policy, error = _outcome(work.stage.retry, answer)
    verdict = decide(work.claim.attempt, outcome, policy, yard.seams.chance.random())
    trail = "" if isinstance(answer, Snooze) else trace(answer)
    if verdict.delay_s is not None:
        work.postpone(Again(index, verdict.delay_s, verdict.attempt))
    else:
        work.lose(Loss(index, verdict.reason, verdict.rule, error, verdict.attempt, trail))
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


def unusable(stage: str, words: str, answer: BaseException) -> InvalidFlow:
    """A failed attempt in place of an outcome that cannot be applied."""
    error = InvalidFlow(f"stage {stage!r}: its handler gave an outcome that cannot be applied: {words}")
    error.__cause__ = answer
    return error


def _attempt(work: Slice, index: int, number: int, dead: bool) -> FailedAttempt:
    claim = work.claim
    key = claim.keys[index] if claim.keys is not None else None
    return FailedAttempt(claim.job, claim.stage, claim.seqs[index], key, number, dead)


def _outcome(policy: RetryPolicy, answer: BaseException) -> tuple[Outcome, RetryPolicy, str]:
    if isinstance(answer, NOT_DONE):
        if isinstance(answer, Retry) and not answer.reason:
            answer = Retry("retry", answer.after_s)
        return answer, policy, str(answer)
    reason = TIMED_OUT if isinstance(answer, HandlerTimeout) else type(answer).__name__
    # Every further attempt would leave its effects behind too.
    chosen = None if isinstance(answer, TransactionEnded) else policy.for_error(answer)
    if chosen is None:
        return Dead(reason, "never_retried"), policy, describe(answer)
    return Retry(reason), chosen, describe(answer)


class HandlerTimeout(TimeoutError):
    """A handler took longer than its stage's `timeout_s`. A policy may name `TimeoutError` for it."""


class RecordedFailure(Exception):
    """What an item recorded or sent could not be applied with its settlement."""


def describe(error: BaseException) -> str:
    """Type, message and where it was raised last: enough to group by, short enough to keep."""
    text = redacted_text(in_words(error))
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    if not frames:
        return text[:ERROR_CHARS_MAX]
    last = frames[-1]
    where = f"\n  {last.filename}:{last.lineno} in {last.name}"
    return text[: ERROR_CHARS_MAX - len(where)] + where
