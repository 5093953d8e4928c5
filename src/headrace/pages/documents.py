"""The whole page: one HTML document that brings its style and script along, and may do nothing else.

The policy names the style and the script of the kit by their hashes. It is made before anything of the caller is in
the page: what a value smuggles in does not run, because its hash is not there, and nothing is loaded from elsewhere,
because nothing else is allowed. A file says its policy itself, a server says it in the header as well.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.errors import MissingExtra
from headrace.pages.blocks import Section
from headrace.pages.markup import Html, element, join, link
from headrace.pages.tones import PATTERNS, SIGNS, check
from headrace.pages.words import LANGUAGES, Texts, Words

if TYPE_CHECKING:
    from starlette.responses import Response

_BLOCK = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)
_NAMES = Texts(**{language: {} for language in LANGUAGES})


@dataclass(frozen=True, slots=True)
class Header:
    """What stands above everything: `name` is the heading, `headline` the whole page in one sentence, with the sign of
    its `tone`; `languages` has the address of the same page in other languages."""

    title: str
    name: str
    headline: str = ""
    tone: str = "plain"
    about: object = ""
    languages: Mapping[str, str] = field(default_factory=dict)


class Document(str):
    """A whole page, and the policy that fits it."""

    __slots__ = ("policy",)
    policy: str

    @classmethod
    def bundled(cls, html: str) -> Document:
        """A page that lies in a package as it is: its own `<style>` and `<script>` blocks (without attributes) are
        allowed. Nothing of a user may be in it."""
        # A browser reads CR LF as LF before it hashes.
        html = html.replace("\r\n", "\n")
        made = cls(html)
        made.policy = _policy(**{kind: _found(html, kind) for kind in ("script", "style")})
        return made


def document(words: Words, header: Header, lead: Html, sections: Sequence[Section]) -> Document:
    """The page: header, what leads (tiles, notes), and the sections with links to each."""
    style, script = _resource("page.css"), _resource("page.js")
    policy = _policy([script], [style])
    head = join(
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),
        element("title", header.title),
        Html(f"<style>{style}</style>"),
    )
    parts = (element("section", element("h2", each.title), each.content, id=each.name) for each in sections)
    body = join(PATTERNS, _header(words, header, sections), element("main", lead, *parts))
    html = element("html", element("head", head), element("body", body, Html(f"<script>{script}</script>")),
                   lang=words.language)  # fmt: skip
    made = Document(f"<!doctype html>\n{html}\n")
    made.policy = policy
    return made


def save(page: str, path: Path) -> None:
    """Write the page, or what lies beside it; whoever reads the file sees the old one or the whole new one, also if
    this is interrupted."""
    # Named before it is there: an interrupt that comes while it is being opened leaves nothing behind either.
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with fresh.open("x", encoding="utf-8", newline="\n") as file:
            file.write(page)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def response(page: Document, status: int = 200) -> Response:
    """The page as a service answers with it. It may ask its own service, and show images of it or `data:`."""
    try:
        from starlette.responses import Response
    except ModuleNotFoundError as error:
        raise MissingExtra(f"serving a page needs {error.name}", "pip install 'headrace[http]'") from None
    # A file cannot say who may frame it.
    headers = {"Content-Security-Policy": f"{page.policy}; frame-ancestors 'none'", "Referrer-Policy": "same-origin"}
    return Response(page, status, headers, "text/html; charset=utf-8")


def _header(words: Words, header: Header, sections: Sequence[Section]) -> Html:
    sign = element("span", SIGNS[check(header.tone)], class_=f"ink-{header.tone}", aria_hidden="true")
    said = header.headline.replace(" %", "\u00a0%")
    headline = element("p", sign, " ", said, class_="headline") if said else ""
    links = [link(f"#{each.name}", each.title) for each in sections]
    return element(
        "header",
        _languages(words, header.languages),
        element("h1", header.name),
        headline,
        element("p", header.about, class_="soft") if header.about else "",
        element("nav", *links, aria_label=words("pages.sections")) if len(links) > 1 else "",
    )


def _languages(words: Words, languages: Mapping[str, str]) -> Html:
    links = [
        element("a", _NAMES.of(language)("pages.language"), href=url, hreflang=language, lang=language)
        for language, url in languages.items()
        if language != words.language
    ]
    return element("nav", *links, class_="languages", aria_label=words("pages.languages")) if links else Html()


def _policy(script: Sequence[str], style: Sequence[str]) -> str:
    return (
        f"default-src 'none'; script-src {_hashes(script)}; style-src {_hashes(style)}; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'"
    )


def _hashes(blocks: Sequence[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(block.encode()).digest()).decode() for block in blocks)
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"


def _found(html: str, kind: str) -> list[str]:
    return [block for found, block in _BLOCK.findall(html) if found == kind]


@cache
def _resource(name: str) -> str:
    return (resources.files(__package__) / name).read_text("utf-8").replace("\r\n", "\n")
