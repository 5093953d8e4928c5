"""What a reader asks for, gathered and made into a page or a file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from zoneinfo import ZoneInfo

from headrace.pages import Document
from headrace_smap.database import Database
from headrace_smap.days import VIETNAM
from headrace_smap.envelope import PROJECT_CHARS_MAX
from headrace_smap.insight.report.content import ProjectReport, gather
from headrace_smap.insight.report.page import report_page
from headrace_smap.insight.report.post_table import PostsPage, posts_page
from headrace_smap.insight.report.posts import PostFilters, all_posts, choices, find
from headrace_smap.insight.report.projects_page import projects_page
from headrace_smap.insight.report.view import LANGUAGE, ReportView
from headrace_smap.insight.report.words import TEXTS

PROJECTS_SHOWN = 200
BESIDE_MAX = 3
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


class ReportReader:
    """Makes the pages of one database, by the days of a zone."""

    def __init__(self, database: Database, zone: ZoneInfo = VIETNAM) -> None:
        self._database, self._zone = database, zone

    async def report(self, project: str, asked: Mapping[str, str], accepted: str = "") -> Document | None:
        """The report as a service shows it; None if there is no such project."""
        found = await gather(self._database, project, self._zone)
        if found is None:
            return None
        view = self._view(asked, accepted)
        beside = [asked["beside"]] if asked.get("beside") else []
        rows = await self._database.rows("report_list", room=PROJECTS_SHOWN)
        others = {row[0]: row[1] or row[0] for row in rows if row[0] != project}
        return report_page(found, replace(view, beside=await self._beside(project, beside), others=others))

    async def file(self, project: str, asked: Mapping[str, str], beside: Sequence[str] = ()) -> Document | None:
        """The report as one file with its posts; None if there is no such project."""
        found = await gather(self._database, project, self._zone)
        if found is None:
            return None
        posts, others = await all_posts(self._database, project), await self._beside(project, beside)
        view = replace(self._view(asked), in_file=posts, beside=others)
        return await asyncio.to_thread(report_page, found, view)

    async def posts(self, project: str, asked: Mapping[str, str], accepted: str = "") -> Document | None:
        """A page of the list of posts; None if there is no such project."""
        known = await self._database.rows("report_project", project=project)
        if not known:
            return None
        filters = PostFilters.read(asked)
        found, offered = await find(self._database, project, filters), await choices(self._database, project)
        posts, simulated = (await self._database.rows("report_simulated", project=project))[0]
        title = known[0][-1] or project
        return posts_page(self._view(asked, accepted), PostsPage(title, posts, simulated, found, filters, offered))

    async def projects(self, asked: Mapping[str, str], accepted: str = "") -> Document:
        """The list of all projects."""
        rows = await self._database.rows("report_list", room=PROJECTS_SHOWN)
        return projects_page(rows, self._view(asked, accepted))

    async def _beside(self, project: str, names: Sequence[str]) -> list[ProjectReport]:
        """Those that there are; anybody may have written the address."""
        wanted = [name for name in names[:BESIDE_MAX] if name != project and _is_name(name)]
        return [found for name in wanted if (found := await gather(self._database, name, self._zone))]

    def _view(self, asked: Mapping[str, str], accepted: str = "") -> ReportView:
        days = asked.get("days", "")
        length = int(days) if days.isascii() and days.isdigit() and len(days) < 5 else None
        kept = {name: value for name, value in asked.items() if name in (LANGUAGE, "days", "beside")}
        if kept.get(LANGUAGE) not in TEXTS.languages:
            kept.pop(LANGUAGE, None)
        words = TEXTS.of(kept.get(LANGUAGE) or TEXTS.preferred(accepted))
        return ReportView(words, self._zone, length=length, asked=kept)


def file_name(project: str) -> str:
    """What a file of a project may be called anywhere."""
    return f"report-{_ODD.sub('_', project)[:100]}.html"


def _is_name(project: str) -> bool:
    return len(project) <= PROJECT_CHARS_MAX and project.isprintable()
