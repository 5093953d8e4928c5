"""The page at `/`: order a project, see all of them move."""

from __future__ import annotations

from functools import cache
from importlib import resources

from fastapi import APIRouter
from starlette.responses import Response

from headrace.pages import Document, response

BANNER = '<p class="banner" role="note">Simulation is on: posts of platforms that nothing serves are made up.</p>'


def front_routes(simulates: bool) -> APIRouter:
    """A page for people; programs have the routes beside it. `simulates`: posts may be made up here, and it says so."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def front() -> Response:
        return response(_document(simulates))

    return router


@cache
def _document(simulates: bool) -> Document:
    text = (resources.files(__package__) / "front.html").read_text("utf-8")
    return Document.bundled(text.replace("<!-- banner -->", BANNER if simulates else ""))
