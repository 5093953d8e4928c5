"""What a report tells, gathered from the results themselves; counts from the aggregates where others keep results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from headrace_smap.database import Database, Row
from headrace_smap.days import VIETNAM
from headrace_smap.insight.report.figures import (
    OTHER,
    PostFigures,
    Shares,
    counted,
    figures_by_day,
    shares_of,
    spam_of,
)

TOP_POSTS = 10
TOP_NAMES = 20
TOP_ERRORS = 20
FAILED_TASKS_MAX = 50
CRAWL_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class TopPost:
    minio_path: str
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
    """One project, as it stands now. Everything by sentiment is without spam, unless nobody told which posts are
    (`spam` is None then). Its days are those of `zone`, but for posts that were dated by `other_zones`."""

    project: str
    name: str
    keywords: tuple[str, ...]
    date_range: tuple[str, ...]
    status: str
    total: int
    done: int
    errors: int
    created_at: datetime
    finished_at: datetime | None
    days: Mapping[str, PostFigures] = field(default_factory=dict)
    platforms: Shares = field(default_factory=dict)
    words: Shares = field(default_factory=dict)
    aspects: Shares = field(default_factory=dict)
    names: Mapping[str, Shares] = field(default_factory=dict)
    kinds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    spam: int | None = None
    simulated: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)
    top: tuple[TopPost, ...] = ()
    failures: tuple[tuple[str, int, str], ...] = ()
    failed_tasks: tuple[tuple[str, str], ...] = ()
    zone: ZoneInfo = VIETNAM
    other_zones: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What people call it."""
        return self.name or self.project

    @property
    def figures(self) -> PostFigures:
        return PostFigures.sum(self.days.values())

    @property
    def posts(self) -> int:
        """All that were analysed."""
        return self.figures.posts + (self.spam or 0)

    @property
    def error_share(self) -> float:
        return self.errors / self.done if self.done else 0.0

    def document(self) -> dict[str, Any]:
        """The report as data."""
        figures = self.figures
        return {
            "project_id": self.project,
            "name": self.name,
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
            "engagement": figures.engagement,
            "simulated": self.simulated,
            "missing": dict(self.missing),
            "sentiments": dict(figures.sentiments),
            "days": {day: dict(each.sentiments) for day, each in self.days.items()},
            "platforms": _plain(self.platforms),
            "keywords_found": _plain(self.words),
            "aspects": _plain(self.aspects),
            **{f"{kind}s": _plain(shares) for kind, shares in self.names.items()},
            **{kind: dict(counts) for kind, counts in self.kinds.items()},
            "top_posts": [_document(post) for post in self.top],
            "failures": [{"rule": rule, "posts": count, "example": item} for rule, count, item in self.failures],
            "failed_tasks": [{"task": task, "error": error} for task, error in self.failed_tasks],
        }


async def gather(database: Database, project: str, zone: ZoneInfo = VIETNAM) -> ProjectReport | None:
    """The report of a project by the days of a zone; None if there is none."""
    found = await database.rows("report_project", project=project)
    if not found:
        return None
    _, keywords, date_range, status, total, done, errors, created_at, finished_at, name = found[0]
    counts = await _counts(database, project)
    crawl = await database.rows("crawl_report", project=project, after=-1, room=CRAWL_ROWS)
    return ProjectReport(
        project,
        name,
        tuple(str(word) for word in keywords or ()),
        tuple(str(day) for day in date_range or ()),
        status or "",
        total,
        done,
        errors,
        created_at,
        finished_at,
        days=figures_by_day(counts),
        platforms=shares_of(counts, 1),
        words=shares_of(counts, 2),
        aspects=counted(await database.rows("report_aspects", project=project)),
        names=_names(await database.rows("report_names", project=project, room=TOP_NAMES)),
        kinds=_kinds(await database.rows("report_kinds", project=project)),
        spam=spam_of(counts),
        simulated=int((await database.rows("report_simulated", project=project))[0][1]),
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


def _names(rows: Sequence[Row]) -> dict[str, Shares]:
    """Authors, hashtags and phrases, each as it is written."""
    return {
        kind: counted(
            (before + (row[1].lower() if before else row[1]), row[2], row[3]) for row in rows if row[0] == kind
        )
        for kind, before in (("author", ""), ("hashtag", "#"), ("phrase", ""))
    }


def _kinds(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    kinds: dict[str, dict[str, int]] = {}
    for kind, name, count in rows:
        kinds.setdefault(str(kind), {})[str(name) or OTHER] = int(count)
    return kinds


def _failed(rows: Sequence[Row]) -> Iterable[tuple[str, str]]:
    for row in rows:
        if row[6] == "failed":
            _, task, platform, keyword, url, day, _, _, _, error = row
            words = url or " · ".join(str(part) for part in (platform, keyword, day) if part) or str(task)
            yield words, str(error or "")


def _plain(shares: Shares) -> dict[str, dict[str, int]]:
    return {name: dict(counted) for name, counted in shares.items()}


def _document(post: TopPost) -> dict[str, Any]:
    return {**asdict(post), "published_at": post.published_at.isoformat() if post.published_at else None}
