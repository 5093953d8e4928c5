"""What a notification says, in Vietnamese and then in English."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from headrace.pages import Texts, Words
from headrace_smap.days import clock_in
from headrace_smap.insight.alerts import Alert, AlertedPost
from headrace_smap.insight.notices import COUNTS, SENTIMENTS, Notice, Summary
from headrace_smap.insight.report.words import TEXTS as REPORT_TEXTS

VIETNAMESE = {
    "finished": "Dự án {name} đã phân tích xong.",
    "finished_counts": "Dự án {name} đã phân tích xong: {done} / {total} bài, {errors} lỗi.",
    "empty": "Dự án {name} không thu thập được bài nào.",
    "failed_tasks": "{count} tác vụ thu thập bị lỗi: kết quả không đầy đủ, lý do có trong báo cáo.",
    "shares": "Tích cực {positive}, trung tính {neutral}, tiêu cực {negative}.",
    "shares_spam": "Tích cực {positive}, trung tính {neutral}, tiêu cực {negative}, không tính {count} bài spam.",
    "risk": "Rủi ro: {critical} bài CRITICAL, {high} bài HIGH.",
    "no_risk": "Không có bài nào rủi ro HIGH hay CRITICAL.",
    "simulated": "{count} bài là mô phỏng: do máy đặt ra, không phải ý kiến của ai.",
    "report": "Báo cáo: {url}",
    "subject_finished": "{name}: đã phân tích xong",
    "subject_empty": "{name}: không thu thập được bài nào",
    "subject_alert": "{name}: {count} bài rủi ro cao",
    "subject_simulated": "mô phỏng",
    "alert": "{count} bài rủi ro cao của dự án {name}: {critical} CRITICAL, {high} HIGH.",
    "alert_more": "Dưới đây là {shown} bài rủi ro nhất; báo cáo có đủ.",
    "alert_simulated": "Bài mô phỏng: do máy đặt ra, không phải ý kiến của ai.",
    "why": "Vì sao: {reasons}.",
    "negative": "tiêu cực ({score})",
    "neutral": "trung tính ({score})",
    "positive": "tích cực ({score})",
    "aspects": "chê {names}",
    "impact": "tác động {impact} / 100",
    "missing": "không rõ {names}",
    "unknown": "chỉ biết mức rủi ro",
}
ENGLISH = {
    "finished": "Project {name} is analysed.",
    "finished_counts": "Project {name} is analysed: {done} of {total} posts, {errors} failed.",
    "empty": "Nothing could be crawled for project {name}.",
    "failed_tasks": "{count} crawl task failed: this is not all, and the report says why."
    "|{count} crawl tasks failed: this is not all, and the report says why.",
    "shares": "Positive {positive}, neutral {neutral}, negative {negative}.",
    "shares_spam": "Positive {positive}, neutral {neutral}, negative {negative}, leaving out {count} spam post."
    "|Positive {positive}, neutral {neutral}, negative {negative}, leaving out {count} spam posts.",
    "risk": "Risk: {critical} CRITICAL, {high} HIGH.",
    "no_risk": "No post has a HIGH or CRITICAL risk.",
    "simulated": "{count} post is simulated: made up, and nobody's opinion."
    "|{count} posts are simulated: made up, and nobody's opinion.",
    "report": "Report: {url}",
    "subject_finished": "{name}: analysed",
    "subject_empty": "{name}: nothing could be crawled",
    "subject_alert": "{name}: {count} post of high risk|{name}: {count} posts of high risk",
    "subject_simulated": "simulated",
    "alert": "{count} post of high risk in project {name}: {critical} CRITICAL, {high} HIGH."
    "|{count} posts of high risk in project {name}: {critical} CRITICAL, {high} HIGH.",
    "alert_more": "The {shown} of the greatest risk follow; the report has all.",
    "alert_simulated": "A simulated post: made up, and nobody's opinion.",
    "why": "Why: {reasons}.",
    "negative": "negative ({score})",
    "neutral": "neutral ({score})",
    "positive": "positive ({score})",
    "aspects": "complaints about {names}",
    "impact": "impact {impact} / 100",
    "missing": "not known: {names}",
    "unknown": "nothing but the risk is known",
}
TEXTS = Texts(vi=VIETNAMESE, en=ENGLISH)
NAME_CHARS_MAX = 100
POST_CHARS_MAX = 280
REASONS_MAX = 5


def subject(notice: Notice) -> str:
    """One line: what is in it may have been written by anybody."""
    return _each("subject_empty" if notice.is_empty else "subject_finished", name=_name(notice))


def text(notice: Notice) -> str:
    """A few lines for people; the numbers are those of the finish line, where they are known."""
    return "\n\n".join("\n".join(_lines(notice, TEXTS.of(language))) for language in TEXTS.languages)


def _lines(notice: Notice, words: Words) -> list[str]:
    lines = [_counts(notice, words)]
    if notice.failed_tasks:
        lines.append(words("failed_tasks", count=notice.failed_tasks))
    if notice.summary is not None and notice.summary.posts:
        lines += _summary(notice.summary, words)
    if notice.report_url:
        lines.append(words("report", url=notice.report_url))
    return lines


def _counts(notice: Notice, words: Words) -> str:
    name = _name(notice)
    if notice.is_empty:
        return words("empty", name=name)
    if not notice.counts:
        return words("finished", name=name)
    return words("finished_counts", name=name, **{count: notice.counts[count] for count in COUNTS})


def _summary(summary: Summary, words: Words) -> list[str]:
    shares = {name: words.percent(share) for name, share in summary.shares.items()}
    lines = []
    if shares:
        key = "shares_spam" if summary.spam else "shares"
        lines.append(words(key, **shares, **({"count": summary.spam} if summary.spam else {})))
    if summary.risk is not None:
        critical, high = summary.risk["CRITICAL"], summary.risk["HIGH"]
        lines.append(words("risk", critical=critical, high=high) if critical or high else words("no_risk"))
    return lines + ([words("simulated", count=summary.simulated)] if summary.simulated else [])


def alert_subject(alert: Alert) -> str:
    """One line: the highest level, name, how many, and whether any of it was made up."""
    parts = [_each("subject_alert", name=_name(alert), count=alert.batch.count)]
    if alert.batch.simulated:
        parts.append(_each("subject_simulated"))
    return f"[{alert.batch.level}] " + " · ".join(parts)


def alert_text(alert: Alert, zone: ZoneInfo) -> str:
    """What happened, where the report is, and the posts; a message that is cut loses the last of these."""
    heads = ("\n".join(_alert_head(alert, TEXTS.of(language))) for language in TEXTS.languages)
    return "\n\n".join([*heads, *("\n".join(_post(post, zone)) for post in alert.batch.posts)])


def _alert_head(alert: Alert, words: Words) -> Iterator[str]:
    batch, shown = alert.batch, len(alert.batch.posts)
    levels = {"critical": batch.levels.get("CRITICAL", 0), "high": batch.levels.get("HIGH", 0)}
    yield words("alert", name=_name(alert), count=batch.count, **levels)
    if batch.simulated:
        yield words("simulated", count=batch.simulated)
    if batch.count > shown:
        yield words("alert_more", shown=shown)
    if alert.report_url:
        yield words("report", url=alert.report_url)


def shortened(text: str | None) -> str:
    flat = " ".join((text or "").split())
    return flat if len(flat) <= POST_CHARS_MAX else f"{flat[: POST_CHARS_MAX - 1]}…"


def _post(post: AlertedPost, zone: ZoneInfo) -> Iterator[str]:
    if post.simulated:
        yield _each("alert_simulated")
    yield f"[{post.level}] {shortened(post.text) or post.path}"
    when = f"{clock_in(zone, post.published_at):%Y-%m-%d %H:%M} {zone.key}" if post.published_at else ""
    about = (" ".join((post.author or "").split())[:NAME_CHARS_MAX], post.platform, when)
    if any(about):
        yield " · ".join(part for part in about if part)
    if post.url and is_web_address(post.url) and post.url.isprintable():
        yield post.url
    for language in TEXTS.languages:
        yield _why(post, TEXTS.of(language))


def _why(post: AlertedPost, words: Words) -> str:
    reasons = []
    if post.sentiment in SENTIMENTS and post.sentiment_score is not None:
        reasons.append(words(post.sentiment, score=words.number(post.sentiment_score, 2)))
    bad = [name for name, said in (post.aspects or {}).items() if said.get("label") == "negative"]
    if bad:
        reasons.append(words("aspects", names=_named(words, "aspect", bad[:REASONS_MAX])))
    if post.impact is not None:
        reasons.append(words("impact", impact=words.number(post.impact)))
    if post.missing:
        reasons.append(words("missing", names=_named(words, "missing", post.missing)))
    return words("why", reasons=", ".join(reasons) or words("unknown"))


def _named(words: Words, kind: str, names: Iterable[str]) -> str:
    """As reports call them."""
    known = REPORT_TEXTS.of(words.language)
    return ", ".join(known.get(f"{kind}.{name}", name) for name in names)


def _each(key: str, **values: object) -> str:
    return " · ".join(TEXTS.of(language)(key, **values) for language in TEXTS.languages)


def _name(told: Notice | Alert) -> str:
    return " ".join((told.name or told.project).split())[:NAME_CHARS_MAX]


def is_web_address(text: str) -> bool:
    """Whether it leads to the web and nowhere else. Anybody may have written it: what cannot be understood does not."""
    try:
        return urlsplit(text).scheme in ("http", "https") and bool(urlsplit(text).hostname)
    except ValueError:
        return False
