"""What is sent: one message for people, as a subject and a text, and for programs, as data."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from headrace_smap.envelope import JOB_COMPLETED
from headrace_smap.insight import words
from headrace_smap.insight.alerts import LEVELS, Alert, AlertedPost
from headrace_smap.insight.notices import Notice, OutgoingMessage

ALERT = "post.alert"


def finished_message(notice: Notice) -> OutgoingMessage:
    """That a project is finished."""
    data: dict[str, Any] = {"project_id": notice.project, **notice.counts, "report_url": notice.report_url}
    if notice.name:
        data["name"] = notice.name
    if notice.failed_tasks:
        data["failed_tasks"] = notice.failed_tasks
    summary = notice.summary
    if summary is not None and summary.posts:
        data["shares"] = {name: round(share, 4) for name, share in summary.shares.items()}
        data |= {"spam": summary.spam, "simulated": summary.simulated}
        if summary.risk is not None:
            data["risk"] = {level: summary.risk[level] for level in LEVELS}
    return OutgoingMessage(notice.id, words.subject(notice), words.text(notice), JOB_COMPLETED, data)


def alert_message(alert: Alert, zone: ZoneInfo) -> OutgoingMessage:
    """That posts are a risk."""
    data = {
        "project_id": alert.project,
        "name": alert.name,
        "report_url": alert.report_url,
        "risk": {level: alert.batch.levels.get(level, 0) for level in LEVELS},
        "simulated": alert.batch.simulated,
        "posts": [_post(post) for post in alert.batch.posts],
    }
    return OutgoingMessage(alert.id, words.alert_subject(alert), words.alert_text(alert, zone), ALERT, data)


def _post(post: AlertedPost) -> dict[str, Any]:
    told = post._asdict()
    told["minio_path"] = told.pop("path")
    told["risk"] = told.pop("level")
    told["published_at"] = post.published_at.isoformat() if post.published_at else None
    return {**told, "text": words.shortened(post.text), "simulated": bool(post.simulated)}
