"""Where a project is looked at: by the routes beside it, and in its report, which another service has.

Services know nothing of each other, so the address of a report is a setting. Without it there is no such link.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from headrace.errors import CallerError
from headrace_smap.project.desk import Desk
from headrace_smap.project.reading import Reader, Shown

REPORT_URL = "SMAP_REPORT_URL"
PLACE = "{project}"
_PATHS = {"progress": "progress", "stream": "progress/stream", "failures": "failures", "export": "export"}
_ADDRESS = re.compile(r"https?://[^\s/?#@{}\\]+[/?#]\S*", re.IGNORECASE)


def leads_to_project(address: str) -> bool:
    """Whether it is an address of the web, the project's place being behind the host, and nobody's password in it."""
    return bool(_ADDRESS.fullmatch(address)) and address.isprintable() and PLACE in address


class Links:
    """The links of projects. A setting that is no address is refused: a page would run what begins with javascript."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._report = environment.get(REPORT_URL, "").strip()
        if self._report and not leads_to_project(self._report):
            hint = f"write http(s)://host:port/projects/{PLACE}/report, without a password"
            raise CallerError(f"{REPORT_URL} is not the address of a report", hint)

    def of(self, project: str) -> dict[str, str]:
        links = {name: f"/projects/{project}/{path}" for name, path in _PATHS.items()}
        if self._report:
            links["report"] = self._report.replace(PLACE, quote(project, safe=""))
        return links


class LinkedReader(Reader):
    """Reads projects with their links."""

    def __init__(self, desk: Desk, links: Links) -> None:
        super().__init__(desk.world, desk.accountant)
        self._links = links

    async def get(self, project: str) -> Shown:
        return self._linked(await super().get(project))

    async def list(self, limit: int, cursor: str | None = None, status: str | None = None) -> Shown:
        page = await super().list(limit, cursor, status)
        return {**page, "items": [self._linked(shown) for shown in page["items"]]}

    def _linked(self, shown: Shown) -> Shown:
        return {**shown, "links": self._links.of(shown["id"])}
