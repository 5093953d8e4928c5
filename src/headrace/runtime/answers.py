"""What a handler may answer: nothing, or an outcome.

Whatever can be awaited is awaited first, whoever declared the handler: an `async def` below an ordinary decorator, a
lambda or a partial answers a coroutine of which nothing has run. What is left must be None or an outcome, because a
value that nobody reads is most often a mistake (`return Retry`, the class); a stage whose handler has another use for
its value says `returns="ignore"`. The words name the type of a value and never the value: it may be a payload.
"""

from __future__ import annotations

import inspect
from typing import Any

from headrace.core.errors import InvalidFlow
from headrace.core.outcomes import OUTCOMES, Outcome

REFUSE, IGNORE = "refuse", "ignore"
"""What a stage may say of values that are no answers."""

Judged = list[Outcome | None] | None
"""What a list handler answered, one for each of its items; None: all are done."""

_ALLOWED = "None, or an outcome: Done(), Retry(…), Dead(…), Snooze(…)"
_HINT = 'return an outcome, or declare the stage with returns="ignore"'


async def item_answer(stage: str, answer: Any, returns: str) -> Outcome | None:
    """The answer of a handler of one item; `InvalidFlow` if it is none."""
    while inspect.isawaitable(answer):
        answer = await answer
    if answer is None or isinstance(answer, OUTCOMES):
        return answer
    if returns == IGNORE and not _is_generator(answer):
        return None
    raise InvalidFlow(f"stage {stage!r}: its handler returned {shown(answer)}; it may return {_ALLOWED}", _HINT)


async def list_answers(stage: str, answers: Any, count: int, returns: str) -> Judged:
    """The answers of a list handler of `count` items; `InvalidFlow` if they are none."""
    while inspect.isawaitable(answers):
        answers = await answers
    if isinstance(answers, list | tuple):
        return await _one_each(stage, answers, count, returns)
    if answers is None:
        return None
    if returns == IGNORE and not _is_generator(answers) and not isinstance(answers, OUTCOMES):
        return None
    raise _unfit(stage, shown(answers), count)


async def _one_each(stage: str, answers: list[Any] | tuple[Any, ...], count: int, returns: str) -> Judged:
    rest = list(reversed(answers))
    judged: list[Outcome | None] = []
    try:
        while rest:
            judged.append(await item_answer(stage, rest.pop(), returns))
    finally:
        for answer in rest:
            close_unrun(answer)
    if len(judged) == count:
        return judged
    if returns == IGNORE and not any(judged):
        return None
    raise _unfit(stage, f"{len(judged)} outcomes", count)


def close_unrun(answer: Any) -> None:
    """A coroutine that will not be awaited any more ends in silence: its item is not done, and that is known."""
    if inspect.iscoroutine(answer):
        answer.close()


def _unfit(stage: str, shown: str, count: int) -> InvalidFlow:
    return InvalidFlow(
        f"stage {stage!r}: a list handler returned {shown} for {count} items;"
        f" it may return None, or a list with one of these per item: {_ALLOWED}",
        _HINT,
    )


def _is_generator(answer: Any) -> bool:
    return inspect.isgenerator(answer) or inspect.isasyncgen(answer)


def shown(answer: Any) -> str:
    if _is_generator(answer):
        return "a generator, of which nothing has run"
    if inspect.isclass(answer):
        return f"the class {answer.__name__}, not an instance of it"
    if isinstance(answer, tuple | list):
        return f"a {type(answer).__name__} of {len(answer)}"
    return f"a value of the type {type(answer).__name__}"
