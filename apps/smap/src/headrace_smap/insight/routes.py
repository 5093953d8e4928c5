"""Reports for people and programs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from headrace.errors import NotFound
from headrace.pages import Document, response
from headrace_smap.count.progress_routes import ProjectName
from headrace_smap.count.truth import look
from headrace_smap.insight.report_content import ProjectReport, gather
from headrace_smap.insight.report_page import list_page, report_page
from headrace_smap.parts import SmapParts

PROJECTS_SHOWN = 200


def report_routes(parts: SmapParts) -> list[APIRouter]:
    """Pages at the root, data there and under /api/v1."""
    pages, data = APIRouter(include_in_schema=False), APIRouter(tags=["reports"])
    zone = parts.settings.timezone

    async def found(project: str) -> ProjectReport:
        report = await gather(parts.database, project, zone)
        if report is None:
            raise NotFound(f"there is no project {project}")
        return report

    @pages.get("/")
    async def projects() -> Response:
        rows = await parts.database.rows("report_list", room=PROJECTS_SHOWN)
        return response(Document.bundled(list_page(rows, zone)))

    @pages.get("/projects/{project}/report")
    async def report(project: ProjectName) -> Response:
        return response(Document.bundled(report_page(await found(project))))

    @data.get("/projects/{project}/report.json")
    async def report_json(project: ProjectName) -> dict[str, Any]:
        """The report as data: counts per day, platform, keyword, sentiment and aspect; top posts; failures."""
        return (await found(project)).document()

    @data.get("/projects/{project}/notices")
    async def notices(project: ProjectName) -> dict[str, Any]:
        """Who was told that the project is finished."""
        names = ("channel", "receiver", "notice_id", "state", "attempts", "error", "sent_at")
        rows = await parts.database.rows("notice_list", project=project)
        if not rows and not (await look(parts.database, [project]))[0].known:
            raise NotFound(f"there is no project {project}")
        return {"notices": [dict(zip(names, row, strict=True)) for row in rows]}

    return [pages, data]
