"""The list of posts: all of them in a file, filtered by its script; a page of them from a service, filtered by it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from headrace.pages import (
    Cell,
    Document,
    Header,
    Html,
    Listing,
    Section,
    ServedRows,
    TableColumn,
    document,
    join,
    link,
    moment,
    paragraphs,
    plain,
    served_table,
    table,
)
from headrace_smap.insight.report.figures import KINDS, OTHER, sentiment_of
from headrace_smap.insight.report.posts import (
    GENUINE,
    ORDERS,
    PAGE_POSTS,
    RISKY,
    SPAM,
    FoundPost,
    FoundPosts,
    PostFilters,
)
from headrace_smap.insight.report.view import INTENTS, RISK_TONES, ReportView

TEXT_CHARS_MAX = 400
TOPICS_SHOWN = 3
NAME = "posts"
WORD_CHARS_MAX = 12
_LONG_WORD = re.compile(rf"(\S{{{WORD_CHARS_MAX}}})(?=\S)")


def post_table(view: ReportView, found: FoundPosts, all_posts: int) -> Html:
    """Posts for a file."""
    words = view.words
    cut = words("posts.file", count=len(found.posts), all=all_posts) if found.count > len(found.posts) else ""
    listing = Listing(NAME, words("posts.caption"), _columns(view, {}), _rows(view, found.posts))
    return join(paragraphs(cut), table(words, listing))


@dataclass(frozen=True, slots=True)
class PostsPage:
    """A page of the list: the project's name, its posts and how many are made up, and what was asked for."""

    title: str
    posts: int
    simulated: int
    found: FoundPosts
    filters: PostFilters
    offered: Mapping[str, Sequence[str]]


def posts_page(view: ReportView, page: PostsPage) -> Document:
    """A page of the list, from a service."""
    words, found = view.words, page.found
    orders = {"" if order == ORDERS[0] else order: words(f"order.{order}") for order in ORDERS}
    first = (found.page - 1) * PAGE_POSTS
    served = ServedRows(page.filters.given, found.count, first, orders, view.kept, found.page, found.pages)
    listing = Listing(NAME, words("posts.caption"), _columns(view, page.offered), _rows(view, found.posts))
    searched = words("posts.searched", count=found.searched_only) if found.searched_only else ""
    links = [
        link(f"report?{view.query(view.kept)}", words("posts.report")),
        link(f"../../?{view.query(view.kept)}", words("list.back")),
    ]
    header = Header(
        words("title", name=f"{words('section.posts')} · {page.title}"),
        page.title,
        about=join(*links, between=" · "),
        languages=view.languages,
    )
    content = join(paragraphs(searched), served_table(words, listing, served))
    lead = view.banner(page.simulated, page.posts)
    return document(words, header, lead, [Section(NAME, words("section.posts"), content)])


def _columns(view: ReportView, offered: Mapping[str, Sequence[str]]) -> list[TableColumn]:
    words = view.words
    named = {
        "sentiment": {kind: words(f"sentiment.{kind}") for kind in KINDS},
        "risk": {level: words(f"risk.{level}") for level in (RISKY, *RISK_TONES)},
        "intent": {name: words(f"intent.{name}") for name in INTENTS},
        "spam": {GENUINE: words("posts.genuine"), SPAM: words("posts.spam")},
        "aspect": {name: words.get(f"aspect.{name}", name) for name in offered.get("aspect", _aspects(view))},
        **{kind: {name: name for name in offered.get(kind, ())} for kind in ("platform", "keyword", "author")},
    }

    def column(key: str, filtering: str = "choice") -> TableColumn:
        return TableColumn(words(f"column.{key}"), key, filter=filtering, choices=named.get(key, {}))

    # A service has more of these than it could offer.
    topic = column("topic", "text" if offered else "choice")
    return [
        TableColumn(words("column.post"), "text", wide=True, sorts=False),
        *(column(key) for key in ("sentiment", "risk", "intent", "platform", "keyword", "aspect", "author")),
        column("day", "days"),
        TableColumn(words("column.impact"), "impact", number=True),
        TableColumn(words("column.engagement"), "engagement", number=True),
        topic,
        column("spam"),
    ]


def _aspects(view: ReportView) -> Iterable[str]:
    """In a file the rows themselves say what there is; this gives those words that have any."""
    return {aspect: None for post in view.in_file.posts for aspect in post.aspects} if view.in_file else ()


def _rows(view: ReportView, posts: Sequence[FoundPost]) -> list[Sequence[object]]:
    words = view.words
    return [
        (
            _post(view, post),
            Cell(view.sentiment(post.sentiment), [sentiment_of(post.sentiment)]),
            Cell(view.risk(post.risk), [post.risk, *([RISKY] if post.risk in ("HIGH", "CRITICAL") else [])]),
            Cell(words.get(f"intent.{post.intent}", post.intent or words("unknown")), [post.intent or OTHER]),
            _named(view, post.platform),
            _named(view, post.keyword),
            Cell(", ".join(words.get(f"aspect.{name}", name) for name in post.aspects), post.aspects),
            Cell(_breakable(post.author), [post.author]) if post.author else None,
            _day(view, post),
            Cell(view.known(post.impact, 1), [] if post.impact is None else [post.impact]),
            Cell(view.known(post.engagement), [] if post.engagement is None else [post.engagement]),
            _topics(post),
            Cell(words("posts.spam") if post.is_spam else "", [SPAM if post.is_spam else GENUINE]),
        )
        for post in posts
    ]


def _post(view: ReportView, post: FoundPost) -> Html:
    url = view.web(post.url)
    original = link(url, view.words("posts.original")) if url else ""
    return join(plain(post.text, TEXT_CHARS_MAX), view.simulated_mark(post.simulated), original, between=" ")


def _named(view: ReportView, name: str) -> Cell:
    return Cell(_breakable(name), [name]) if name else Cell(view.words("unknown"), [OTHER])


def _topics(post: FoundPost) -> Cell:
    topics = [*(f"#{tag.lower()}" for tag in post.hashtags), *post.phrases]
    return Cell(_breakable(", ".join(topics[:TOPICS_SHOWN])), topics)


def _breakable(name: str) -> Html:
    """A name in a narrow column: words of strangers may be of any length."""
    pieces = _LONG_WORD.split(plain(name, TEXT_CHARS_MAX))
    return join(*(join(piece, Html("<wbr>")) if place % 2 else piece for place, piece in enumerate(pieces)))


def _day(view: ReportView, post: FoundPost) -> Cell:
    """Filtered by the day on which the post counts, shown with its time."""
    if post.published_at is None:
        return Cell(date.fromisoformat(post.day), [post.day])
    return Cell(moment(view.words, view.local(post.published_at)), [post.day])
