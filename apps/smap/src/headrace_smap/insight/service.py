"""The insight service: keeps aggregates, shows reports, and tells people once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.consuming import Consumer, ConsumerOptions, Delivery, Subscription
from headrace.services import Service
from headrace_smap.envelope import ANALYSIS_FINISHED, INSIGHT_QUEUE, JOB_COMPLETED, NOTIFICATION_QUEUE
from headrace_smap.insight.aggregates import Aggregator
from headrace_smap.insight.alerts import Alert, Alerts, batch_of
from headrace_smap.insight.channels import NotificationSettings, channels, default_receivers
from headrace_smap.insight.messages import alert_message, finished_message
from headrace_smap.insight.notices import DueNotice, Notice, NoticeRefused, Notifier, OutgoingMessage
from headrace_smap.insight.summaries import summary_of
from headrace_smap.parts import SmapParts
from headrace_smap.receivers import ReceiverBook
from headrace_smap.settings import PLACE

if TYPE_CHECKING:
    from fastapi import APIRouter


class InsightService(Service):
    name = "insight"

    def __init__(self, parts: SmapParts) -> None:
        self._parts = parts
        settings = NotificationSettings.read(parts.settings.environment)
        self._public_url = settings.public_url.rstrip("/")
        book = ReceiverBook(parts.database, default_receivers(settings))
        self.notifier = Notifier(parts.database, channels(settings, parts.database), book, self)
        results = Subscription(INSIGHT_QUEUE, (ANALYSIS_FINISHED,))
        ends = Subscription(NOTIFICATION_QUEUE, (JOB_COMPLETED,))
        self._aggregator = Aggregator(parts.database)
        self.alerts = Alerts(parts.database, book, settings.alert_risk, settings.alert_interval_s)
        self._consumers = (
            Consumer(parts.bus, results, self._results, ConsumerOptions(parts.settings.batch_max)),
            Consumer(parts.bus, ends, self.notifier.handle),
        )

    async def prepare(self) -> None:
        for consumer in self._consumers:
            await consumer.prepare()

    async def run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            for consumer in self._consumers:
                group.create_task(consumer.run(stop))
            group.create_task(self.notifier.run(stop))
            group.create_task(self.alerts.run(stop))

    def routes(self) -> Sequence[APIRouter]:
        from headrace_smap.count.progress_routes import progress_routes
        from headrace_smap.insight.routes import report_routes

        return [progress_routes(self._parts), *report_routes(self._parts)]

    async def message(self, due: DueNotice) -> OutgoingMessage:
        """What is told of a project: the counts of its finish row; of one that is not ours, those of its announcement,
        or else those that the ledger shows. Nobody is told of one that was cancelled or deleted."""
        database, project = self._parts.database, due.project
        rows = await database.rows("notice_counts", project=project)
        total, done, errors, finished, silent, name, failed = rows[0] if rows else (0, 0, 0, False, False, None, 0)
        if silent:
            raise NoticeRefused("the project was cancelled or deleted")
        link = self._report_url(project)
        if due.alert is not None:
            batch = await batch_of(database, project, due.alert)
            return alert_message(Alert(due.notice_id, project, batch, link, name or ""), self._parts.settings.timezone)
        if finished:
            counts: Mapping[str, int] = {"total": total, "done": done, "errors": errors}
        else:
            counts = due.counts or await self._shown(project)
        summary = await summary_of(database, project)
        return finished_message(Notice(due.notice_id, project, counts, link, name or "", summary, failed))

    async def _results(self, deliveries: Sequence[Delivery]) -> None:
        """Both may be repeated: each result is counted once, and alerted once per level."""
        await self._aggregator.handle(deliveries)
        await self.alerts.handle(deliveries)

    async def _shown(self, project: str) -> dict[str, int]:
        seen = await self._parts.ledger.tally(project)
        if seen is None:
            return {}
        return {"total": seen.total, "done": min(seen.done, seen.total), "errors": seen.errors}

    def _report_url(self, project: str) -> str:
        """Where people reach it; under `up`, which says where reports are, without any setting."""
        template = (
            f"{self._public_url}/projects/{PLACE}/report" if self._public_url else self._parts.settings.report_url
        )
        return template.replace(PLACE, quote(project, safe=""))
