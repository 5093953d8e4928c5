"""A failed attempt as people hear of it: one line of the log with its traceback, and a call of `on_error`."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from headrace.core.claims import ERROR_CHARS_MAX, TRACEBACK_BYTES_MAX
from headrace.core.outcomes import OUTCOMES
from headrace.core.redaction import clipped, redacted_text
from headrace.runtime.answers import close_unrun
from headrace.runtime.observe import Observer

FAILED, DIED = "item.failed", "item.dead"
RUNTIME = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """Whose attempt failed, and which one, from 1. `dead`: there is no further one."""

    job: str
    stage: str
    seq: int
    key: str | None
    attempt: int
    dead: bool


OnError = Callable[[BaseException, FailedAttempt], object]


def trace(error: BaseException) -> str:
    """The traceback from the handler on, with its causes and contexts, redacted and within its limit. An outcome that
    was returned and not raised has none."""
    if isinstance(error, OUTCOMES) and error.__traceback__ is None:
        return ""
    text = "".join(traceback.format_exception(type(error), error, _from_handler(error.__traceback__)))
    # Cut twice: a huge message is not searched as a whole, and a secret is not cut in half before it is seen.
    return clipped(redacted_text(clipped(text, 4 * TRACEBACK_BYTES_MAX)), TRACEBACK_BYTES_MAX)


def frames(error: BaseException) -> str:
    """The traceback without a word of what the errors say: classes and frames, for a log that may hold nothing of what
    was worked on. Causes and contexts come first, as in a traceback."""
    parts: list[str] = []
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        trail = traceback.format_list(traceback.extract_tb(_from_handler(following.__traceback__)))
        inner = f" of {_classes(following.exceptions)}" if isinstance(following, BaseExceptionGroup) else ""
        parts.append(f"{''.join(trail)}{type(following).__qualname__}{inner}\n")
        context = None if following.__suppress_context__ else following.__context__
        following = following.__cause__ or context
    return clipped("\n".join(reversed(parts)), TRACEBACK_BYTES_MAX)


def _classes(errors: Sequence[BaseException]) -> str:
    return ", ".join(sorted({type(each).__qualname__ for each in errors}))


def _from_handler(trail: TracebackType | None) -> TracebackType | None:
    """Without the frames of the runtime that called the handler; all of them if there are no others."""
    inner = trail
    while inner is not None and RUNTIME in Path(inner.tb_frame.f_code.co_filename).parents:
        inner = inner.tb_next
    return inner or trail


def in_words(error: BaseException) -> str:
    """Its type and message, not redacted yet."""
    try:
        message = str(error)
    except Exception:  # the message of a foreign exception may itself be broken
        message = "(its message cannot be shown)"
    return f"{type(error).__name__}: {message[:ERROR_CHARS_MAX]}"


class Reporter:
    """Tells of failed attempts. Whatever `on_error` does, the account goes on."""

    __slots__ = ("_observer", "_on_error")

    def __init__(self, observer: Observer, on_error: OnError | None) -> None:
        self._observer, self._on_error = observer, on_error

    def failed(self, error: BaseException, attempt: FailedAttempt, reason: str, trail: str) -> None:
        """`trail` is the traceback, formatted once for the log and the dead letter."""
        self._observer.event(
            DIED if attempt.dead else FAILED,
            job=attempt.job,
            stage=attempt.stage,
            seq=attempt.seq,
            key=attempt.key,
            attempt=attempt.attempt,
            reason=reason,
            traceback=trail,
        )
        if self._on_error is not None:
            self._call(self._on_error, error, attempt)

    def _call(self, on_error: OnError, error: BaseException, attempt: FailedAttempt) -> None:
        try:
            answer = on_error(error, attempt)
            if inspect.isawaitable(answer):
                close_unrun(answer)
                raise TypeError("on_error returned an awaitable, and nobody awaits it: make it a plain function")
        except KeyboardInterrupt:
            raise
        except BaseException as broken:  # user code may raise anything, and this must not end a lane
            self._observer.event("on_error.failed", error=type(broken).__name__, traceback=trace(broken))
