"""The page at `/`: order a project, see all of them move."""

from __future__ import annotations

from functools import cache
from importlib import resources

from fastapi import APIRouter
from starlette.responses import Response

from headrace.pages import Document, response


def front_routes() -> APIRouter:
    """A page for people; programs have the routes beside it."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def front() -> Response:
        return response(_document())

    return router


@cache
def _document() -> Document:
    return Document.bundled((resources.files(__package__) / "front.html").read_text("utf-8"))
