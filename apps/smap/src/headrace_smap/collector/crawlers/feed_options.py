"""What the setting of a feed says, checked before anything is crawled, and what its requests carry.

A token is named by its variable, `header=Authorization: Bearer env:SMAP_TOKEN_GRAPH`, and three things keep it ours.
Only the setting can name one, never a project; only variables that begin with SMAP_TOKEN_ can be named; and it is sent
to the origin of the very address that the setting names, over TLS, whatever a project's targets, a redirect or a next
link lead to. It is put in when a request is made and taken out of the answer, so it is neither stored nor shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote

from headrace.errors import CallerError
from headrace_smap.collector.crawlers import formats
from headrace_smap.collector.crawlers.addresses import checked_parts
from headrace_smap.collector.crawlers.polite_fetcher import OriginAccess
from headrace_smap.collector.crawlers.recipes import RECIPES, feed_address
from headrace_smap.collector.tasks import CrawlFailed
from headrace_smap.collector.wishes import TOKEN_PREFIX, CrawlWishes

PAGING = ("next", "page", "first", "cursor", "cursor_param")
OPTIONS = ("recipe", "format", "items", *PAGING, "details", "details_id", *formats.FIELDS, "header", "robots")
TOKEN_CHARS_MIN = 8
"""A shorter one is no secret, and taking it out of answers would damage them."""
MASK = "***"
ROBOTS = ("ask", "ignore")
_CODE = re.compile(r"%[0-9A-F]{2}")
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]*): *([!-~ ]*?)env:(\w+)")
_OURS = frozenset(("host", "connection", "content-length", "transfer-encoding", "accept-encoding", "user-agent"))
# What tokens are made of; with anything else in it a server may repeat it in a form that is not recognised.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=|:-]+")


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """An address with its places and all that is said about it. `places`: where the fields of a post lie."""

    address: str
    options: Mapping[str, str]
    places: Mapping[str, str]

    @staticmethod
    def read(argument: str) -> FeedOptions:
        """Understand a setting; what the recipe says stands behind what the setting says itself."""
        own = dict(parse_qsl(argument.partition("#")[2], keep_blank_values=True))
        if unknown := sorted(set(own) - set(OPTIONS)):
            raise CallerError(f"the feed crawler has no option {unknown[0]!r}", f"options: {', '.join(OPTIONS)}")
        recipe = own.get("recipe")
        if recipe is not None and recipe not in RECIPES:
            raise CallerError(f"the feed crawler has no recipe {recipe!r}", f"recipes: {', '.join(RECIPES)}")
        options = {**(RECIPES[recipe].options if recipe else {}), **own}
        places = {name: options[name] for name in formats.FIELDS if name in options}
        read = FeedOptions(feed_address(argument), options, places)
        read.check()
        return read

    def check(self) -> None:
        """Refuse what cannot work."""
        options = self.options
        if options.get("format", formats.JSON) not in formats.FORMATS:
            raise CallerError(f"the feed crawler knows no format {options['format']!r}", ", ".join(formats.FORMATS))
        if not options.get("first", "1").isdigit():
            raise CallerError(f"the feed crawler's option first={options['first']!r} is not a number")
        for one, other in (("cursor", "cursor_param"), ("details", "details_id")):
            if (one in options) != (other in options):
                raise CallerError(f"the feed crawler needs {one} and {other} together")
        if options.get("robots", ROBOTS[0]) not in ROBOTS:
            raise CallerError("the feed crawler's option robots is ask or ignore")
        if self.address and not self.address.startswith("file://"):
            try:
                checked_parts(self.address)
            except CrawlFailed as error:
                raise CallerError(f"the feed crawler cannot use {self.address!r}: {error}", "feed:https://…") from None

    def access(self, wishes: CrawlWishes) -> FeedAccess:
        """What requests to its own address carry; refused if a token is missing or would be seen by others."""
        header, ignores = self.options.get("header"), self.options.get("robots") == "ignore"
        if not header and not ignores:
            return FeedAccess()
        if not self.address.startswith(("http://", "https://")):
            raise CallerError(
                "the feed crawler needs an address beside header and robots", "feed:https://host/…#header=…"
            )
        parts, _, _ = checked_parts(self.address)
        origin = f"{parts.scheme}://{parts.netloc.lower()}"
        if "{" in origin:
            raise CallerError("the feed crawler grants header and robots to one host, which a place cannot name")
        if not header:
            return FeedAccess(OriginAccess(origin, {}, robots=False))
        name, words, token = _header(header, wishes.tokens)
        if parts.scheme != "https" and not wishes.private:
            raise CallerError(
                f"the feed crawler sends no token to {origin}: it would be read on the way", "use https://"
            )
        return FeedAccess(OriginAccess(origin, {name: words + token}, robots=not ignores), token)


@dataclass(frozen=True, slots=True)
class FeedAccess:
    """What goes out with requests, and what must not come back in their answers."""

    origin: OriginAccess | None = None
    token: str = field(default="", repr=False)

    def without_token(self, body: bytes) -> bytes:
        """An answer may repeat what it was asked with, such as in the address of its next page."""
        if self.token:
            quoted = quote(self.token, safe="")
            for form in (
                self.token,
                quoted,
                _CODE.sub(lambda code: code[0].lower(), quoted),
                self.token.replace("/", "\\/"),
            ):
                body = body.replace(form.encode(), MASK.encode())
        return body


def _header(text: str, tokens: Mapping[str, str]) -> tuple[str, str, str]:
    """Name, words and token of a header. Nothing that is refused here is repeated: it may hold what is secret."""
    given = _HEADER.fullmatch(text)
    if given is None or given[1].lower() in _OURS:
        raise CallerError(
            "the feed crawler's option header is NAME: … env:VARIABLE", "Authorization: Bearer env:SMAP_TOKEN_X"
        )
    variable = given[3]
    if not variable.startswith(TOKEN_PREFIX):
        raise CallerError(f"a header takes its token from a variable {TOKEN_PREFIX}…, not from {variable}")
    token = tokens.get(variable, "").strip()
    if not token:
        raise CallerError(f"{variable} is not set", "it holds the token that a feed of SMAP_CRAWLERS needs")
    if len(token) < TOKEN_CHARS_MIN or not _TOKEN.fullmatch(token):
        raise CallerError(f"{variable} is no token: {TOKEN_CHARS_MIN} or more letters, digits and . _ ~ + / = | : -")
    return given[1], given[2], token
