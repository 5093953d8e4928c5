"""What a notification says, in Vietnamese and then in English."""

from __future__ import annotations

from urllib.parse import urlsplit

from headrace.pages import Texts, Words
from headrace_smap.insight.notices import COUNTS, Notice, Summary

VIETNAMESE = {
    "finished": "Dự án {name} đã phân tích xong.",
    "finished_counts": "Dự án {name} đã phân tích xong: {done} / {total} bài, {errors} lỗi.",
    "shares": "Tích cực {positive}, trung tính {neutral}, tiêu cực {negative}.",
    "shares_spam": "Tích cực {positive}, trung tính {neutral}, tiêu cực {negative}, không tính {count} bài spam.",
    "risk": "Rủi ro: {critical} bài CRITICAL, {high} bài HIGH.",
    "no_risk": "Không có bài nào rủi ro HIGH hay CRITICAL.",
    "simulated": "{count} bài là mô phỏng: do máy đặt ra, không phải ý kiến của ai.",
    "report": "Báo cáo: {url}",
    "subject_finished": "{name}: đã phân tích xong",
}
ENGLISH = {
    "finished": "Project {name} is analysed.",
    "finished_counts": "Project {name} is analysed: {done} of {total} posts, {errors} failed.",
    "shares": "Positive {positive}, neutral {neutral}, negative {negative}.",
    "shares_spam": "Positive {positive}, neutral {neutral}, negative {negative}, leaving out {count} spam post."
    "|Positive {positive}, neutral {neutral}, negative {negative}, leaving out {count} spam posts.",
    "risk": "Risk: {critical} CRITICAL, {high} HIGH.",
    "no_risk": "No post has a HIGH or CRITICAL risk.",
    "simulated": "{count} post is simulated: made up, and nobody's opinion."
    "|{count} posts are simulated: made up, and nobody's opinion.",
    "report": "Report: {url}",
    "subject_finished": "{name}: analysed",
}
TEXTS = Texts(vi=VIETNAMESE, en=ENGLISH)
NAME_CHARS_MAX = 100


def subject(notice: Notice) -> str:
    """One line: what is in it may have been written by anybody."""
    name = _name(notice)
    return " · ".join(TEXTS.of(language)("subject_finished", name=name) for language in TEXTS.languages)


def text(notice: Notice) -> str:
    """A few lines for people; the numbers are those of the finish line, where they are known."""
    return "\n\n".join("\n".join(_lines(notice, TEXTS.of(language))) for language in TEXTS.languages)


def _lines(notice: Notice, words: Words) -> list[str]:
    lines = [_counts(notice, words)]
    if notice.summary is not None and notice.summary.posts:
        lines += _summary(notice.summary, words)
    if notice.report_url:
        lines.append(words("report", url=notice.report_url))
    return lines


def _counts(notice: Notice, words: Words) -> str:
    name = _name(notice)
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


def _name(notice: Notice) -> str:
    return " ".join((notice.name or notice.project).split())[:NAME_CHARS_MAX]


def is_web_address(text: str) -> bool:
    """Whether it leads to the web and nowhere else. Anybody may have written it: what cannot be understood does not."""
    try:
        return urlsplit(text).scheme in ("http", "https") and bool(urlsplit(text).hostname)
    except ValueError:
        return False
