"""Reports for people and programs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from headrace.errors import NotFound
from headrace.pages import Document, response
from headrace_smap.count.progress_routes import ProjectName
from headrace_smap.count.truth import look
from headrace_smap.insight.report.content import gather
from headrace_smap.insight.report.reader import ReportReader, file_name
from headrace_smap.parts import SmapParts


def report_routes(parts: SmapParts) -> list[APIRouter]:
    """Pages at the root, data there and under /api/v1."""
    data = APIRouter(tags=["reports"])

    @data.get("/projects/{project}/report.json")
    async def report_json(project: ProjectName) -> dict[str, Any]:
        """The report as data: counts per day, platform, keyword, sentiment and aspect; top posts; failures."""
        report = await gather(parts.database, project, parts.settings.timezone)
        if report is None:
            raise _unknown(project)
        return report.document()

    @data.get("/projects/{project}/notices")
    async def notices(project: ProjectName) -> dict[str, Any]:
        """Who was told of risky posts (alert) and that the project is finished (end)."""
        names = ("channel", "receiver", "notice_id", "state", "attempts", "error", "sent_at", "tells")
        rows = await parts.database.rows("notice_list", project=project)
        if not rows and not (await look(parts.database, [project]))[0].known:
            raise _unknown(project)
        return {"notices": [dict(zip(names, row, strict=True)) for row in rows]}

    return [_pages(ReportReader(parts.database, parts.settings.timezone)), data]


def _pages(reader: ReportReader) -> APIRouter:
    """Filters and language are in the address; without a language there the browser's counts."""
    pages = APIRouter(include_in_schema=False)

    @pages.get("/")
    async def projects(request: Request) -> Response:
        return _answer(await reader.projects(request.query_params, _accepted(request)))

    @pages.get("/projects/{project}/report")
    async def report(project: ProjectName, request: Request) -> Response:
        return _answer(await reader.report(project, request.query_params, _accepted(request)), project)

    @pages.get("/projects/{project}/posts")
    async def posts(project: ProjectName, request: Request) -> Response:
        return _answer(await reader.posts(project, request.query_params, _accepted(request)), project)

    @pages.get("/projects/{project}/report.html")
    async def report_file(project: ProjectName, request: Request) -> Response:
        beside = request.query_params.getlist("beside")
        answer = _answer(await reader.file(project, request.query_params, beside), project)
        answer.headers["Content-Disposition"] = f'attachment; filename="{file_name(project)}"'
        return answer

    return pages


def _accepted(request: Request) -> str:
    return request.headers.get("accept-language", "")


def _answer(page: Document | None, project: str = "") -> Response:
    if page is None:
        raise _unknown(project)
    answer = response(page)
    answer.headers["Vary"] = "Accept-Language"
    return answer


def _unknown(project: str) -> NotFound:
    return NotFound(f"there is no project {project}")
