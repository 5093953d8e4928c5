"""What the collector answers over HTTP: how the crawl tasks of a project stand, and why some failed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from headrace.errors import NotFound
from headrace_smap.parts import SmapParts

TASKS_MAX = 1_000
FIELDS = ("position", "task", "platform", "keyword", "url", "day", "state", "pages", "posts", "error")


async def crawl_report(parts: SmapParts, project: str, after: int = -1, limit: int = TASKS_MAX) -> list[dict[str, Any]]:
    """The tasks of a project in their order, from the one after a position on."""
    rows = await parts.database.rows("crawl_report", project=project, after=after, room=limit)
    return [dict(zip(FIELDS, row, strict=True)) for row in rows]


def crawl_routes(parts: SmapParts) -> APIRouter:
    router = APIRouter(tags=["crawls"])

    @router.get("/projects/{project_id}/crawls")
    async def crawls(
        project_id: str,
        after: Annotated[int, Query(ge=-1)] = -1,
        limit: Annotated[int, Query(ge=1, le=TASKS_MAX)] = 100,
    ) -> dict[str, Any]:
        """Crawl tasks of a project: state, pages, posts that each was the first to find, the error of a failed one."""
        tasks = await crawl_report(parts, project_id, after, limit)
        if not tasks and after < 0:
            raise NotFound(f"the collector knows no project {project_id}")
        return {
            "project_id": project_id,
            "tasks": tasks,
            "next": tasks[-1]["position"] if len(tasks) == limit else None,
        }

    return router
