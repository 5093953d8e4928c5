"""What a handler may answer for messages: nothing, an outcome for each, or a consequence for an inbox to commit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from headrace.core.consequences import Consequence
from headrace.core.deliveries import Delivery
from headrace.core.errors import CallerError
from headrace.core.outcomes import OUTCOMES, Outcome, Retry, flaw
from headrace.runtime.answers import shown

Answer = Consequence | Outcome | None
Answers = Sequence[Answer] | None
BatchHandler = Callable[[Sequence[Delivery]], Awaitable[Answers]]
MessageHandler = Callable[[Delivery], Awaitable[Answer]]
_ALLOWED = "None, or one of these per message: None, Done(), Retry(…), Dead(…), Snooze(…)"


def one_by_one(handle: MessageHandler) -> BatchHandler:
    """A handler of single messages, for a consumer whose batches have one."""

    async def handle_batch(deliveries: Sequence[Delivery]) -> Answers:
        return [await handle(delivery) for delivery in deliveries]

    return handle_batch


def answer_each(answers: Any, count: int, commits: bool) -> list[Answer]:
    """One answer for each of `count` messages. What is none is that message's failure; `CallerError`: it cannot be said
    whose answers these are. A consequence is one only if there is an inbox that `commits` it."""
    if answers is None:
        return [None] * count
    if not isinstance(answers, list | tuple) or len(answers) != count:
        raise CallerError(f"the handler of {count} messages returned {shown(answers)}; it may return {_ALLOWED}")
    return [_judged(answer, commits) for answer in answers]


def _judged(answer: Any, commits: bool) -> Answer:
    if words := flaw(answer):
        return Retry(f"the handler gave an outcome that cannot be applied: {words}")
    if answer is None or isinstance(answer, OUTCOMES):
        return answer
    if isinstance(answer, Consequence):
        return answer if commits else Retry("the handler returned a Consequence, and the consumer has no inbox")
    return Retry(f"the handler returned {shown(answer)}; it may return None, a Consequence or an outcome")
