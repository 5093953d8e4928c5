"""Every task of a batch becomes a record or a reject, by the rules alone: no query, no clock, and no task can spoil
the others. What only a database can find out (a URL too long for an index) is left to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar

from headrace_silver.records.payloads import NotAnObject, decode, fields_with_nul, may_hold_nul, read_article, read_bar
from headrace_silver.records.rule_checks import Yardstick
from headrace_silver.records.rules import ARTICLE_RULES, BAR_RULES, SA_PAYLOAD, TA_PAYLOAD, Rule, RuleSettings, stated
from headrace_silver.records.shown_text import shown
from headrace_silver.records.values import (
    EXCEPTION,
    SA_ARTICLE,
    SANITY_FAIL,
    TA_BAR,
    UNKNOWN_TASK_TYPE,
    Article,
    Bar,
    Judged,
    Reject,
    Task,
)

Record = TypeVar("Record", Bar, Article)


def judge(tasks: Iterable[Task], now: datetime, settings: RuleSettings) -> Judged:
    """Each task in exactly one of the three lists; `now` is aware and comes from the database that holds the tasks."""
    judged = Judged()
    yardstick = Yardstick.at(now, settings.symbol_pattern)
    judge_bar = _judge_of(TA_PAYLOAD, BAR_RULES, read_bar, yardstick)
    judge_article = _judge_of(SA_PAYLOAD, ARTICLE_RULES, read_article, yardstick)
    for task in tasks:
        if task.kind == TA_BAR:
            judge_bar(task, judged.bars, judged.rejects)
        elif task.kind == SA_ARTICLE:
            judge_article(task, judged.articles, judged.rejects)
        else:
            known = f"known are {TA_BAR} and {SA_ARTICLE}"
            told = f"Nobody handles tasks of the type {shown(task.kind)}; {known}."
            judged.rejects.append(Reject(task.id, UNKNOWN_TASK_TYPE, None, told))
    return judged


def _judge_of(
    payload_rule: Rule[dict[str, Any] | NotAnObject],
    rules: tuple[Rule[Record], ...],
    read: Callable[[dict[str, Any], datetime, list[str]], Record],
    yardstick: Yardstick,
) -> Callable[[Task, list[tuple[int, Record]], list[Reject]], None]:
    """The judge of one kind of task: what does not change from task to task is looked up once."""
    checks = tuple((rule.check, rule) for rule in rules)

    def judge_one(task: Task, accepted: list[tuple[int, Record]], rejects: list[Reject]) -> None:
        payload = decode(task.payload)
        if isinstance(payload, NotAnObject):
            rejects.append(Reject(task.id, SANITY_FAIL, payload_rule.id, payload_rule.message({}, payload, yardstick)))
            return
        unfit: list[str] = []
        record = read(payload, task.first_seen, unfit)
        for check, rule in checks:
            if not check(record, yardstick):
                rejects.append(Reject(task.id, SANITY_FAIL, rule.id, rule.message(payload, record, yardstick)))
                return
        if may_hold_nul(task.payload):
            unfit += fields_with_nul(record)
        if unfit:
            told = f"Not fit for its column: {stated(payload, *unfit)}."
            rejects.append(Reject(task.id, EXCEPTION, None, told))
            return
        accepted.append((task.id, record))

    return judge_one
