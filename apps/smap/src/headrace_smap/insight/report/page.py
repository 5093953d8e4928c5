"""The report of a project as one HTML document, made of the parts of `headrace.pages`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.pages import (
    Chart,
    ChartRow,
    Document,
    Header,
    Html,
    Listing,
    Section,
    Series,
    TableColumn,
    Tile,
    bars,
    columns,
    document,
    join,
    link,
    notes,
    paragraphs,
    plain,
    table,
    tiles,
)
from headrace_smap.insight.report.comparison import beside, periods
from headrace_smap.insight.report.content import ProjectReport, TopPost
from headrace_smap.insight.report.figures import KINDS, OTHER, SENTIMENTS, Shares, every_day
from headrace_smap.insight.report.post_table import post_table
from headrace_smap.insight.report.posts import RISKY, SPAM
from headrace_smap.insight.report.view import RISK_TONES, SENTIMENT_TONES, ReportView
from headrace_smap.values import CANCELLED, DONE

ROWS_MAX = 15
NAME_CHARS_MAX = 60
_Part = Callable[[ReportView, ProjectReport], Html]


def report_page(report: ProjectReport, view: ReportView | None = None) -> Document:
    """The whole page; parts that have nothing to say are left out."""
    view = view or ReportView()
    words = view.words
    parts: dict[str, _Part] = {
        "sentiment": _sentiment,
        "days": _days,
        "periods": periods,
        "beside": beside,
        "platforms": _platforms,
        "keywords": _keywords,
        "aspects": _aspects,
        "topics": _topics,
        "authors": _authors,
        "kinds": _kinds,
        "top": _top,
        "posts": _posts,
        "failures": _failures,
    }
    made = [(name, part(view, report)) for name, part in parts.items()]
    header = Header(
        words("title", name=report.title),
        report.title,
        headline(report, view),
        about=_about(view, report),
        languages=view.languages,
    )
    lead = join(view.banner(report.simulated, report.posts), _tiles(view, report), notes(words, _notes(view, report)))
    return document(
        words, header, lead, [Section(name, words(f"section.{name}"), content) for name, content in made if content]
    )


def headline(report: ProjectReport, view: ReportView | None = None) -> str:
    """The whole in one sentence: is it ready, and what do people say?"""
    words, figures = (view or ReportView()).words, report.figures
    if not report.posts:
        if report.status != DONE:
            return words("headline.cancelled" if report.status == CANCELLED else "headline.none")
        failed = len(report.failed_tasks)
        return words("headline.failed", count=failed) if failed else words("headline.empty")
    if not figures.posts:
        return words("headline.spam", count=report.posts)
    lead = max(SENTIMENTS, key=lambda name: figures.sentiments[name])
    other = "positive" if lead == "negative" else "negative"
    return words(
        "headline.done" if report.finished_at else "headline.going",
        count=report.posts,
        share=words.percent(figures.share(lead), 0),
        lead=words(f"sentiment.{lead}"),
        beside_share=words.percent(figures.share(other), 0),
        beside=words(f"sentiment.{other}"),
    )


def _about(view: ReportView, report: ProjectReport) -> Html:
    words = view.words
    days = [words.day(day) if (day := view.day(text)) else text for text in report.date_range]
    moments = {"created": report.created_at, "finished": report.finished_at}
    return join(
        report.project if report.name else "",
        ", ".join(report.keywords),
        words("about.days", first=days[0], last=days[-1]) if days else "",
        *(words(f"about.{name}", when=view.local(when)) for name, when in moments.items() if when),
        words("about.zone", zone=view.zone.key),
        "" if view.in_file else link(f"report.html?{view.query(view.asked)}", words("download")),
        "" if view.in_file else link(f"../../?{view.query(view.kept)}", words("list.back")),
        between=" · ",
    )


def _tiles(view: ReportView, report: ProjectReport) -> Html:
    words, figures = view.words, report.figures
    counts, status = "tile.posts.done", dict[str, str]()
    if report.status != DONE:
        counts = "tile.posts.more"
        status = {"status": words.get(f"status.{report.status}", report.status or words("unknown"))}

    def tile(name: str, value: str, more: str, url: str = "", tone: str = "") -> Tile:
        return Tile(words(f"tile.{name}"), value, more, url, tone)

    def share(name: str) -> Tile:
        count = figures.sentiments[name]
        url = view.posts_url(sentiment=name) if count else ""
        more = words("tile.posts_of", count=count)
        return tile(name, words.percent(figures.share(name), 0), more, url, SENTIMENT_TONES[name])

    spam, risky = report.spam or 0, figures.risky
    engagement = words("tile.engagement.more")
    failed = words("tile.failed.more", share=words.percent(report.error_share))
    listed = view.posts_url(spam="") if report.top or spam else ""
    return tiles(
        [
            tile("posts", words.number(report.posts), words(counts, done=report.done, total=report.total, **status),
                 listed),
            share("positive"),
            share("negative"),
            tile("risky", words.number(risky), words("tile.risky.more"), view.posts_url(risk=RISKY) if risky else "",
                 "bad" if risky else ""),
            tile("engagement", view.known(figures.engagement), engagement,
                 view.posts_url(order="engagement") if figures.engagement and not view.in_file else ""),
            tile("spam", view.known(report.spam), words("tile.spam.more"), view.posts_url(spam=SPAM) if spam else ""),
            tile("failed", words.number(report.errors), failed, "#failures" if report.failures else ""),
        ]
    )  # fmt: skip


def _notes(view: ReportView, report: ProjectReport) -> list[object]:
    words = view.words
    said: list[object] = []
    if report.spam is None and report.posts:
        said.append(words("note.spam_unknown"))
    elif report.spam:
        said.append(words("note.spam", count=report.spam, all=report.posts))
    if report.other_zones:
        said.append(
            words("note.zones", zones=", ".join(report.other_zones), zone=report.zone.key, project=report.project)
        )
    if report.missing:
        parts = [
            words("note.missing.part", name=words.get(f"missing.{name}", name), count=count)
            for name, count in report.missing.items()
        ]
        said.append(words("note.missing", parts=", ".join(parts)))
    return said


def series(view: ReportView, shown: Sequence[str] = KINDS) -> list[Series]:
    return [Series(view.words(f"sentiment.{kind}"), SENTIMENT_TONES[kind]) for kind in shown]


def _kinds_in(shares: Shares) -> tuple[str, ...]:
    """The unknown only where there is any."""
    return KINDS if any(counted[OTHER] for counted in shares.values()) else SENTIMENTS


def _bars(view: ReportView, name: str, shares: Shares, key: str, labels: Mapping[str, str] | None = None) -> Html:
    """A bar per name; its label leads to the posts of that name, its numbers to those of a sentiment."""
    words, shown = view.words, _kinds_in(shares)
    rows = [
        ChartRow(
            plain((labels or {}).get(each, each), NAME_CHARS_MAX),
            [counted[kind] for kind in shown],
            view.posts_url(**{key: each}),
            # What a post says about an aspect is not what it says as a whole.
            [view.posts_url(**{key: each, "sentiment": kind}) if counted[kind] else "" for kind in shown]
            if key != "aspect"
            else (),
        )
        for each, counted in list(shares.items())[:ROWS_MAX]
    ]
    return bars(words, Chart(name, words(f"{name}.caption"), words(f"column.{key}"), series(view, shown), rows))


def _sentiment(view: ReportView, report: ProjectReport) -> Html:
    counted = report.figures.sentiments
    if not counted.total():
        return Html()
    words, shown = view.words, _kinds_in({"": counted})
    urls = [view.posts_url(sentiment=kind) if counted[kind] else "" for kind in shown]
    row = ChartRow(words("all"), [counted[kind] for kind in shown], view.posts_url(), urls)
    chart = Chart("sentiment", words("sentiment.caption"), words("column.posts"), series(view, shown), [row])
    return bars(words, chart, whole=True)


def _days(view: ReportView, report: ProjectReport) -> Html:
    words = view.words
    shares = {day: figures.sentiments for day, figures in every_day(report.days, report.date_range).items()}
    shown = _kinds_in(shares)
    rows = []
    for text, counted in shares.items():
        day = view.day(text)
        url = view.posts_url(**{"day.from": text, "day.to": text}) if day else ""
        label = words.day(day) if day else words("unknown")
        short = f"{day:%d/%m}" if day else label
        rows.append(ChartRow(label, [counted[kind] for kind in shown], url, short=short))
    return columns(words, Chart("days", words("days.caption"), words("column.day"), series(view, shown), rows))


def _platforms(view: ReportView, report: ProjectReport) -> Html:
    return _bars(view, "platforms", report.platforms, "platform", {OTHER: view.words("unknown")})


def _keywords(view: ReportView, report: ProjectReport) -> Html:
    return _bars(view, "keywords", report.words, "keyword", {OTHER: view.words("unknown")})


def _aspects(view: ReportView, report: ProjectReport) -> Html:
    labels = {name: view.words.get(f"aspect.{name}", name) for name in report.aspects}
    return _bars(view, "aspects", report.aspects, "aspect", labels)


def _topics(view: ReportView, report: ProjectReport) -> Html:
    """What was searched for is no news."""
    keywords = {word.lower() for word in report.keywords}
    phrases = {name: counted for name, counted in report.names.get("phrase", {}).items() if name not in keywords}
    return join(
        _bars(view, "phrases", phrases, "topic"), _bars(view, "hashtags", report.names.get("hashtag", {}), "topic")
    )


def _authors(view: ReportView, report: ProjectReport) -> Html:
    return _bars(view, "authors", report.names.get("author", {}), "author")


def _kinds(view: ReportView, report: ProjectReport) -> Html:
    words, posts = view.words, Series(view.words("column.posts"))
    levels, intents = report.kinds.get("risk", {}), report.kinds.get("intent", {})
    risks = [
        ChartRow(
            words.get(f"risk.{level}", level), [levels[level]], view.posts_url(risk=level) if level != OTHER else ""
        )
        for level in (*RISK_TONES, *sorted(set(levels) - set(RISK_TONES)))
        if level in levels
    ]
    wanted = [
        ChartRow(words.get(f"intent.{name}", name), [count], view.posts_url(intent=name))
        for name, count in list(intents.items())[:ROWS_MAX]
    ]
    return join(
        bars(words, Chart("risk", words("risk.caption"), words("column.risk"), [posts], risks)),
        bars(words, Chart("intent", words("intent.caption"), words("column.intent"), [posts], wanted)),
    )


def _top(view: ReportView, report: ProjectReport) -> Html:
    """A file has all posts a little further down."""
    if not report.top or view.in_file:
        return Html()
    words = view.words
    heads = [
        TableColumn(words("column.post"), wide=True),
        *(TableColumn(words(f"column.{name}")) for name in ("sentiment", "risk", "platform")),
        *(TableColumn(words(f"column.{name}"), number=True) for name in ("impact", "engagement")),
    ]
    rows = [
        (
            _text(view, post), view.sentiment(post.sentiment), view.risk(post.risk), post.platform,
            view.known(post.impact, 1), view.known(post.engagement),
        )
        for post in report.top
    ]  # fmt: skip
    return join(
        table(words, Listing("top", words("top.caption"), heads, rows)),
        paragraphs(link(view.posts_url(spam=""), words("top.all"))),
    )


def _text(view: ReportView, post: TopPost) -> Html:
    """What was said, by whom and when; a link only where it is one: a post may say anything."""
    when = view.words.day(view.local(post.published_at)) if post.published_at else ""
    author = plain(post.author or post.minio_path, NAME_CHARS_MAX)
    source = link(view.web(post.url), " · ".join(part for part in (author, when) if part))
    return join(plain(post.text), view.simulated_mark(post.simulated), source, between=" ")


def _posts(view: ReportView, report: ProjectReport) -> Html:
    return post_table(view, view.in_file, report.posts) if view.in_file and view.in_file.posts else Html()


def _failures(view: ReportView, report: ProjectReport) -> Html:
    words = view.words
    reasons = [TableColumn(words("column.reason")), TableColumn(words("column.posts"), number=True),
               TableColumn(words("column.example"), wide=True)]  # fmt: skip
    tasks = [TableColumn(words("column.task"), wide=True), TableColumn(words("column.why"), wide=True)]
    shown = [
        Listing("reasons", words("failures.caption"), reasons, report.failures),
        Listing("tasks", words("failures.tasks"), tasks, report.failed_tasks),
    ]
    return join(*(table(words, listing) for listing in shown if listing.rows))
