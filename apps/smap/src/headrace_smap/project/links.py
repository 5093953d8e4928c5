"""Where a project is looked at: by the routes beside it, and in its report, which another service has.

Services know nothing of each other, so the address of a report is a setting. Without it there is no such link.
"""

from __future__ import annotations

from urllib.parse import quote

from headrace_smap.project.operations import ProjectOperations
from headrace_smap.project.reader import Reader, Shown
from headrace_smap.settings import PLACE

_PATHS = {"progress": "progress", "stream": "progress/stream", "failures": "failures", "export": "export"}


class Links:
    """The links of projects."""

    def __init__(self, report_url: str) -> None:
        self._report = report_url

    def of(self, project: str) -> dict[str, str]:
        links = {name: f"/projects/{project}/{path}" for name, path in _PATHS.items()}
        if self._report:
            links["report"] = self._report.replace(PLACE, quote(project, safe=""))
        return links


class LinkedReader(Reader):
    """Reads projects with their links."""

    def __init__(self, desk: ProjectOperations, links: Links) -> None:
        super().__init__(desk.parts, desk.accountant)
        self._links = links

    async def get(self, project: str) -> Shown:
        return self._linked(await super().get(project))

    async def list(self, limit: int, cursor: str | None = None, status: str | None = None) -> Shown:
        page = await super().list(limit, cursor, status)
        return {**page, "items": [self._linked(shown) for shown in page["items"]]}

    def _linked(self, shown: Shown) -> Shown:
        return {**shown, "links": self._links.of(shown["id"])}
