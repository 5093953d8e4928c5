"""The report as one HTML document that brings everything along."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib import resources
from urllib.parse import quote
from zoneinfo import ZoneInfo

from headrace_smap.database import Row
from headrace_smap.days import VIETNAM, clock_in
from headrace_smap.insight import charts
from headrace_smap.insight.report_content import SENTIMENTS, ProjectReport, TopPost
from headrace_smap.insight.words import is_web_address
from headrace_smap.values import DONE

UNKNOWN = "unknown"


def report_page(report: ProjectReport) -> str:
    """The whole page."""
    parts = [
        _banner(f"{report.simulated:,} of {report.posts:,} posts are simulated.") if report.simulated else "",
        f"<h1>smap · {escape(report.project)}</h1>",
        f'<p class="headline">{escape(headline(report))}</p>',
        f'<p class="soft">{escape(_about(report))}</p>',
        _tiles(report),
        _section("Sentiment", charts.share_of(report.sentiments), _key()),
        _section(f"Per day ({escape(_days_of(report))})", charts.stacked_days(report.days)),
        _section("Per platform", charts.rows_of(report.platforms, "Posts per platform by sentiment")),
        _section("Per keyword", charts.rows_of(report.words, "Posts per keyword by sentiment")),
        _section("Aspects", charts.rows_of(report.aspects, "Mentions per aspect by sentiment")),
        _section("Intent", charts.plain_rows(report.kinds.get("intent", {}), "Posts per intent")),
        _section("Risk", charts.plain_rows(report.kinds.get("risk", {}), "Posts per level of risk")),
        _top(report),
        _failures(report),
    ]
    return document(f"{report.project} · smap", "\n".join(part for part in parts if part))


def list_page(rows: Iterable[Row], zone: ZoneInfo = VIETNAM) -> str:
    """All projects, the newest first."""
    shown = list(rows)
    lines = [
        f'<tr><td class="name"><a href="projects/{quote(str(name), safe="")}/report">{escape(str(name))}</a></td>'
        f'<td class="name">{escape(", ".join(str(word) for word in keywords or ()))}</td>'
        f"<td>{escape(str(status or ''))}</td>"
        f'<td class="n">{done:,} / {total:,}{" simulated" if simulated else ""}</td><td class="n">{errors:,}</td>'
        f"<td>{clock_in(zone, created_at):%Y-%m-%d %H:%M}</td></tr>"
        for name, keywords, status, total, done, errors, created_at, _, simulated in shown
    ]
    banner = _banner("Some of these projects hold simulated posts.") if any(row[-1] for row in shown) else ""
    heads = '<th>Project</th><th>Keywords</th><th>Status</th><th class="n">Posts</th><th class="n">Failed</th>'
    heads += f"<th>Created ({escape(zone.key)})</th>"
    table = _table(heads, lines) if lines else '<p class="soft">There are no projects yet.</p>'
    return document("smap · projects", f'{banner}<h1>smap</h1><p class="headline">Projects</p>{table}')


def headline(report: ProjectReport) -> str:
    """The whole in one sentence: is it ready, and what do people say?"""
    if not report.posts:
        failed = f"; {len(report.failed_tasks):,} crawl tasks failed" if report.failed_tasks else ""
        return f"Finished: no posts were found{failed}." if report.status == DONE else "No results yet."
    share = {name: report.sentiments[name] / report.posts for name in SENTIMENTS}
    lead = max(SENTIMENTS, key=lambda name: share[name])
    state = f"{report.posts:,} posts analysed" if report.finished_at else f"{report.posts:,} posts analysed so far"
    beside = "positive" if lead == "negative" else "negative"
    return f"{state}: {share[lead]:.0%} {lead}, {share[beside]:.0%} {beside}."


def document(title: str, body: str) -> str:
    style = resources.files(__package__).joinpath("report.css").read_text("utf-8")
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    return (
        f'<!doctype html><html lang="en"><head>{head}<title>{escape(title)}</title>'
        f"<style>{style}</style></head><body><main>{body}</main></body></html>"
    )


def _banner(words: str) -> str:
    """Nobody may take what was made up for what somebody said."""
    return f'<p class="banner" role="note">{words} They are made up and say nothing about anybody.</p>'


def _about(report: ProjectReport) -> str:
    parts = [", ".join(report.keywords)] if report.keywords else []
    if report.date_range:
        parts.append(" to ".join(report.date_range))
    parts.append(f"created {clock_in(report.zone, report.created_at):%Y-%m-%d %H:%M}")
    if report.finished_at:
        parts.append(f"finished {clock_in(report.zone, report.finished_at):%Y-%m-%d %H:%M}")
    return " · ".join([*parts, f"days and times of {report.zone.key}"])


def _days_of(report: ProjectReport) -> str:
    if not report.other_zones:
        return report.zone.key
    return f"{report.zone.key}; some posts by {', '.join(report.other_zones)}: headrace smap rerun {report.project}"


def _tiles(report: ProjectReport) -> str:
    tiles = [
        ("Status", report.status),
        ("Posts", f"{report.done:,} / {report.total:,}"),
        ("Failed", f"{report.errors:,} ({report.error_share:.1%})"),
        ("Engagement", UNKNOWN if report.engagement is None else f"{report.engagement:,}"),
        ("High risk", f"{report.risky:,}"),
        ("Spam", f"{report.kinds.get('spam', {}).get('spam', 0):,}"),
    ]
    inner = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles)
    return f'<dl class="tiles">{inner}</dl>'


def _section(title: str, picture: str, below: str = "") -> str:
    return f"<h2>{title}</h2><figure>{picture}{below}</figure>" if picture else ""


def _key() -> str:
    square = '<svg viewBox="0 0 10 10" aria-hidden="true"><rect class="{0}" width="10" height="10"/></svg>{0}'
    return f'<ul class="key">{"".join(f"<li>{square.format(name)}</li>" for name in SENTIMENTS)}</ul>'


def _top(report: ProjectReport) -> str:
    if not report.top:
        return ""
    heads = '<th>Post</th><th>Platform</th><th>Sentiment</th><th>Risk</th><th class="n">Impact</th>'
    heads += '<th class="n">Engagement</th>'
    lines = [
        f'<tr><td class="text">{escape(post.text)}<br><span class="soft">{_source(post, report.zone)}</span></td>'
        f'<td class="word">{escape(post.platform)}</td><td class="word">{escape(post.sentiment)}</td>'
        f'<td class="word">{escape(post.risk)}</td>'
        f'<td class="n">{UNKNOWN if post.impact is None else f"{post.impact:.1f}"}</td>'
        f'<td class="n">{UNKNOWN if post.engagement is None else f"{post.engagement:,}"}</td></tr>'
        for post in report.top
    ]
    return f"<h2>Posts with the most impact</h2>{_missing(report)}{_table(heads, lines)}"


def _missing(report: ProjectReport) -> str:
    """What impact and risk did without."""
    if not report.missing:
        return ""
    parts = (f"{name.replace('_at', '')} ({count:,} posts)" for name, count in report.missing.items())
    return f'<p class="soft">Impact and risk are judged without what was not told: {escape(", ".join(parts))}.</p>'


def _source(post: TopPost, zone: ZoneInfo) -> str:
    """Who wrote it and when; a link only where it is one: a post may say anything."""
    when = f" · {clock_in(zone, post.published_at):%Y-%m-%d}" if post.published_at else ""
    words = escape(f"{post.author or post.path}{when}")
    if not is_web_address(post.url):
        return words
    return f'<a href="{escape(post.url)}" rel="noopener noreferrer nofollow">{words}</a>'


def _failures(report: ProjectReport) -> str:
    parts = []
    if report.failures:
        lines = [
            f'<tr><td>{escape(rule)}</td><td class="n">{count:,}</td><td>{escape(item)}</td></tr>'
            for rule, count, item in report.failures
        ]
        parts.append(_table('<th>Reason</th><th class="n">Posts</th><th>Example</th>', lines))
    if report.failed_tasks:
        lines = [f"<tr><td>{escape(task)}</td><td>{escape(error)}</td></tr>" for task, error in report.failed_tasks]
        parts.append(_table("<th>Crawl task that failed</th><th>Why</th>", lines))
    return f"<h2>What failed</h2>{''.join(parts)}" if parts else ""


def _table(heads: str, lines: list[str]) -> str:
    inner = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="scroll" tabindex="0">{inner}</div>'
