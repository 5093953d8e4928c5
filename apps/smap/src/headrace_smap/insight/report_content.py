"""What a report tells, gathered from the results themselves; counts from the aggregates where others keep results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from headrace_smap.database import Database, Row
from headrace_smap.days import VIETNAM

SENTIMENTS = ("positive", "neutral", "negative")
OTHER = "unknown"
TOP_POSTS = 10
TOP_ERRORS = 20
FAILED_TASKS_MAX = 50
CRAWL_ROWS = 10_000

Shares = dict[str, Counter[str]]
"""Posts by sentiment, for each of something."""


@dataclass(frozen=True, slots=True)
class TopPost:
    path: str
    platform: str
    author: str
    text: str
    url: str
    sentiment: str
    risk: str
    impact: float | None
    engagement: int | None
    published_at: datetime | None
    missing: list[str]
    simulated: bool


@dataclass(frozen=True, slots=True)
class ProjectReport:
    """One project, as it stands now. Its days are those of `zone`, but for posts that were dated by `other_zones`."""

    project: str
    keywords: tuple[str, ...]
    date_range: tuple[str, ...]
    status: str
    total: int
    done: int
    errors: int
    created_at: datetime
    finished_at: datetime | None
    sentiments: Counter[str] = field(default_factory=Counter)
    days: Shares = field(default_factory=dict)
    platforms: Shares = field(default_factory=dict)
    words: Shares = field(default_factory=dict)
    aspects: Shares = field(default_factory=dict)
    kinds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    engagement: int | None = None
    risky: int = 0
    simulated: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)
    top: tuple[TopPost, ...] = ()
    failures: tuple[tuple[str, int, str], ...] = ()
    failed_tasks: tuple[tuple[str, str], ...] = ()
    zone: ZoneInfo = VIETNAM
    other_zones: tuple[str, ...] = ()

    @property
    def posts(self) -> int:
        return self.sentiments.total()

    @property
    def error_share(self) -> float:
        return self.errors / self.done if self.done else 0.0

    def document(self) -> dict[str, Any]:
        """The report as data."""
        return {
            "project_id": self.project,
            "keywords": list(self.keywords),
            "date_range": list(self.date_range),
            "timezone": self.zone.key,
            "other_timezones": list(self.other_zones),
            "status": self.status,
            "total": self.total,
            "done": self.done,
            "errors": self.errors,
            "error_share": round(self.error_share, 4),
            "created_at": self.created_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
            "posts": self.posts,
            "engagement": self.engagement,
            "simulated": self.simulated,
            "missing": dict(self.missing),
            "sentiments": dict(self.sentiments),
            "days": _plain(self.days),
            "platforms": _plain(self.platforms),
            "keywords_found": _plain(self.words),
            "aspects": _plain(self.aspects),
            **{kind: dict(counts) for kind, counts in self.kinds.items()},
            "top_posts": [
                {
                    "minio_path": post.path,
                    "platform": post.platform,
                    "author": post.author,
                    "text": post.text,
                    "url": post.url,
                    "sentiment": post.sentiment,
                    "risk": post.risk,
                    "impact": post.impact,
                    "engagement": post.engagement,
                    "published_at": post.published_at.isoformat() if post.published_at else None,
                    "missing": post.missing,
                    "simulated": post.simulated,
                }
                for post in self.top
            ],
            "failures": [{"rule": rule, "posts": count, "example": item} for rule, count, item in self.failures],
            "failed_tasks": [{"task": task, "error": error} for task, error in self.failed_tasks],
        }


async def gather(database: Database, project: str, zone: ZoneInfo = VIETNAM) -> ProjectReport | None:
    """The report of a project by the days of a zone; None if there is none."""
    found = await database.rows("report_project", project=project)
    if not found:
        return None
    name, keywords, date_range, status, total, done, errors, created_at, finished_at = found[0]
    counts = await _counts(database, project)
    crawl = await database.rows("crawl_report", project=project, after=-1, room=CRAWL_ROWS)
    return ProjectReport(
        name,
        tuple(str(word) for word in keywords or ()),
        tuple(str(day) for day in date_range or ()),
        status or "",
        total,
        done,
        errors,
        created_at,
        finished_at,
        sentiments=_sentiments(counts),
        days=_shares(counts, 0),
        platforms=_shares(counts, 1),
        words=_shares(counts, 2),
        aspects=_aspects(await database.rows("report_aspects", project=project)),
        kinds=_kinds(await database.rows("report_kinds", project=project)),
        engagement=sum(known) if (known := [int(row[6]) for row in counts if row[6] is not None]) else None,
        risky=sum(int(row[5]) for row in counts),
        simulated=int((await database.rows("report_simulated", project=project))[0][0]),
        missing={str(name): int(count) for name, count in await database.rows("report_missing", project=project)},
        top=tuple(TopPost(*row) for row in await database.rows("report_top", project=project, room=TOP_POSTS)),
        failures=tuple(
            (str(row[0]), int(row[1]), str(row[2]))
            for row in await database.rows("report_errors", project=project, room=TOP_ERRORS)
        ),
        failed_tasks=tuple(_failed(crawl))[:FAILED_TASKS_MAX],
        zone=zone,
        other_zones=tuple(
            name for (name,) in await database.rows("report_timezones", project=project) if name != zone.key
        ),
    )


async def _counts(database: Database, project: str) -> list[Row]:
    """The rows of whoever has counted more posts. Others may keep their results elsewhere and only tell of them; the
    results that are here say more of each post."""
    results = await database.rows("report_counts", project=project)
    told = await database.rows("aggregate_rows", project=project)
    return max(results, told, key=lambda rows: sum(int(row[4]) for row in rows))


def _sentiment(name: str) -> str:
    return name if name in SENTIMENTS else OTHER


def _sentiments(rows: Iterable[Row]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for row in rows:
        counted[_sentiment(row[3])] += int(row[4])
    return counted


def _shares(rows: list[Row], column: int) -> Shares:
    shares: Shares = {}
    for row in rows:
        shares.setdefault(str(row[column] or OTHER), Counter())[_sentiment(row[3])] += int(row[4])
    return shares


def _aspects(rows: list[Row]) -> Shares:
    shares: Shares = {}
    for aspect, label, count in rows:
        shares.setdefault(str(aspect), Counter())[_sentiment(label)] += int(count)
    return dict(sorted(shares.items(), key=lambda share: (-share[1].total(), share[0])))


def _kinds(rows: list[Row]) -> dict[str, dict[str, int]]:
    kinds: dict[str, dict[str, int]] = {}
    for kind, name, count in rows:
        kinds.setdefault(str(kind), {})[str(name) or OTHER] = int(count)
    return kinds


def _failed(rows: list[Row]) -> Iterable[tuple[str, str]]:
    for row in rows:
        if row[6] == "failed":
            _, task, platform, keyword, url, day, _, _, _, error = row
            words = url or " · ".join(str(part) for part in (platform, keyword, day) if part) or str(task)
            yield words, str(error or "")


def _plain(shares: Shares) -> dict[str, dict[str, int]]:
    return {name: dict(counted) for name, counted in shares.items()}
