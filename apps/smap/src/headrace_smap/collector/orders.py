"""`project.created` becomes a job: the plan is stored first, and what is stored is submitted.

A message may come any number of times, to any number of instances and with other words: a project is known by its id,
and its first plan counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
import structlog

import headrace
from headrace.consuming import Delivery, trace_of
from headrace.http import new_traceparent
from headrace_smap.collector.flow import open_round
from headrace_smap.collector.harvester import FAILED, WAITING
from headrace_smap.collector.task_plan import OrderRefused, read_order, split
from headrace_smap.collector.tasks import CrawlTask
from headrace_smap.collector.wishes import WAY_OUT, CrawlWishes, unserved_words
from headrace_smap.count.accountant import Accountant
from headrace_smap.envelope import Malformed, Message, read
from headrace_smap.parts import SmapParts

ORDER = "order"
"""The name of the row that says why an order could not be carried out."""
log = structlog.get_logger("smap")


class Orders:
    """Takes orders in; `handle` may be repeated."""

    def __init__(self, parts: SmapParts, accountant: Accountant, wishes: CrawlWishes) -> None:
        self._parts, self._accountant, self._wishes = parts, accountant, wishes

    async def handle(self, deliveries: Sequence[Delivery], flow: headrace.Flow, now: Callable[[], datetime]) -> None:
        for delivery in deliveries:
            try:
                message = read(delivery.event.body)
            except Malformed as error:
                reason = f"{error.rule}: {error.reason}"
                log.error("order.malformed", event_id=delivery.event.event_id, reason=reason)
                await self._parts.bus.dead_letter([delivery], reason)
                continue
            trace = trace_of(delivery.event) or new_traceparent()
            with structlog.contextvars.bound_contextvars(traceparent=trace):
                await self._take(message, flow, now(), trace)

    async def _take(self, message: Message, flow: headrace.Flow, now: datetime, trace: str) -> None:
        project = message.project
        if await self._parts.database.rows("crawl_shut", projects=[project]):
            # Long over, cancelled or deleted: opening it again would show what is not so any more.
            log.info("order.over", project=project)
            return
        await self._accountant.open(project)
        place = {"project": project}
        plan = {**place, "rows": self.plan(message), "now": now}
        planned = ("crawl_hold", place), ("crawl_plan", plan), ("crawl_planned", place)
        # The first trace stays: a project of a foreign service has its row only now.
        traced = ("truth_trace", {**place, "traceparent": trace})
        rows = (await self._parts.database.transact(*planned, traced))[2]
        tasks = [msgspec.json.decode(document, type=CrawlTask) for (document,) in rows]
        await self._accountant.expect(project, 0)
        job = await open_round(self._parts.engine, flow, project, tasks)
        log.info("order.taken", project=project, job=job, tasks=len(tasks))

    def plan(self, message: Message) -> list[dict[str, Any]]:
        """The tasks of an order as they are stored, or one row that says why there are none."""
        try:
            tasks = split(
                read_order(message.project, message.payload, self._parts.settings.timezone), self._wishes.searched
            )
        except OrderRefused as error:
            return [_refused(0, CrawlTask(message.project, ORDER, ""), str(error))]
        unserved = self._wishes.unserved(task.platform for task in tasks)
        served = [_row(number, task) for number, task in enumerate(tasks) if task.platform not in unserved]
        # One line for each, not one per keyword and day.
        others = [CrawlTask(message.project, f"{platform} {ORDER}", platform) for platform in unserved]
        return served + [
            _refused(len(tasks) + number, task, f"{unserved_words(task.platform)}. {WAY_OUT}")
            for number, task in enumerate(others)
        ]


def _refused(position: int, task: CrawlTask, reason: str) -> dict[str, Any]:
    log.error("order.refused", project=task.project, platform=task.platform, reason=reason)
    return {**_row(position, task), "document": "", "state": FAILED, "error": reason}


def _row(position: int, task: CrawlTask) -> dict[str, Any]:
    return {
        "task": task.name,
        "position": position,
        "platform": task.platform,
        "keyword": task.keyword,
        "url": task.url,
        "day": task.day,
        "document": msgspec.json.encode(task).decode(),
        "state": WAITING,
        "error": None,
    }
