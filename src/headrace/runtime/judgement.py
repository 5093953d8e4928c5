"""What an answer other than done means: for the worker of a store and for that of a source alike.

A handler answers with an outcome or raises. Errors become outcomes by the retry policy, an outcome that cannot be
applied becomes an error first, and `core/retry` decides.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from headrace.core.claims import ERROR_CHARS_MAX
from headrace.core.errors import InvalidFlow, TransactionEnded
from headrace.core.outcomes import Dead, Outcome, Retry, Snooze, flaw
from headrace.core.redaction import redacted_text
from headrace.core.retry import RetryPolicy, Verdict, decide
from headrace.ports.seams import Chance
from headrace.runtime.failed_attempts import in_words, trace

NOT_DONE = (Retry, Dead, Snooze)
TIMED_OUT = "timeout"


class HandlerTimeout(TimeoutError):
    """A handler took longer than it may. A policy may name `TimeoutError` for it."""


@dataclass(frozen=True, slots=True)
class JudgedAttempt:
    """The verdict on an attempt that did not end done; `failure` in words, and the traceback of it as `trail`."""

    verdict: Verdict
    failure: str
    trail: str


def usable(name: str, answer: BaseException) -> BaseException:
    """The answer itself, or the error in place of an outcome that cannot be applied."""
    words = flaw(answer)
    if not words:
        return answer
    error = InvalidFlow(f"stage {name!r}: its handler gave an outcome that cannot be applied: {words}")
    error.__cause__ = answer
    return error


def judge(answer: BaseException, spent: int, policy: RetryPolicy, chance: Chance) -> JudgedAttempt:
    """Judge what a handler answered or raised for an item that had spent so many attempts before this one."""
    outcome, chosen, failure = _outcome(policy, answer)
    verdict = decide(spent, outcome, chosen, chance.random())
    return JudgedAttempt(verdict, failure, "" if isinstance(answer, Snooze) else trace(answer))


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


def describe(error: BaseException) -> str:
    """Type, message and where it was raised last: enough to group by, short enough to keep."""
    text = redacted_text(in_words(error))
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    if not frames:
        return text[:ERROR_CHARS_MAX]
    last = frames[-1]
    where = f"\n  {last.filename}:{last.lineno} in {last.name}"
    return text[: ERROR_CHARS_MAX - len(where)] + where
