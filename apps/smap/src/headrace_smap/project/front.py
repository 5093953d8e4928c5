"""The page at `/`: order a project, see all of them move."""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from importlib import resources
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace.pages import Document, response
from headrace_smap.days import VIETNAM
from headrace_smap.project.words import TABLES, TEXTS

_PLACE = re.compile(r"\{\{([a-z_.]+)\}\}")


def front_routes(simulates: bool, zone: ZoneInfo = VIETNAM) -> APIRouter:
    """A page for people, in the language that its address or the browser names; programs have the routes beside it.
    `simulates`: posts may be made up here, and it says so. Days are those of `zone`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def front(request: Request) -> Response:
        asked = request.query_params.get("language", "")
        accepted = request.headers.get("accept-language", "")
        language = asked if asked in TEXTS.languages else TEXTS.preferred(accepted)
        return response(_document(simulates, zone.key, language))

    return router


@cache
def _document(simulates: bool, timezone: str, language: str) -> Document:
    table = TABLES[language]
    banner = f'<p class="banner" role="note">{escape(table["simulates"])}</p>' if simulates else ""
    said = {key: text for key, text in table.items() if key.startswith("say.")}
    filled = {
        **{key: escape(text) for key, text in table.items()},
        "language": language,
        "banner": banner,
        "timezone": escape(timezone),
        # What the script says stands in the page as data: no text ends its block.
        "said": json.dumps({"language": language, "timezone": timezone, **said}).replace("<", "\\u003c"),
    }
    text = (resources.files(__package__) / "front.html").read_text("utf-8")
    return Document.bundled(_PLACE.sub(lambda place: filled[place[1]], text))
