"""The page at `/`: order a project, see all of them move."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib import resources
from zoneinfo import ZoneInfo

from fastapi import APIRouter
from starlette.responses import Response

from headrace.pages import Document, response
from headrace_smap.days import VIETNAM

BANNER = '<p class="banner" role="note">Simulation is on: posts of platforms that nothing serves are made up.</p>'


def front_routes(simulates: bool, zone: ZoneInfo = VIETNAM) -> APIRouter:
    """A page for people; programs have the routes beside it. `simulates`: posts may be made up here, and it says so.
    Days are those of `zone`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def front() -> Response:
        return response(_document(simulates, zone.key))

    return router


@cache
def _document(simulates: bool, timezone: str) -> Document:
    text = (resources.files(__package__) / "front.html").read_text("utf-8")
    shown = text.replace("<!-- banner -->", BANNER if simulates else "").replace("<!-- timezone -->", escape(timezone))
    return Document.bundled(shown)
