"""What a notification says, in Vietnamese and English."""

from __future__ import annotations

from urllib.parse import urlsplit

from headrace.apps.smap.insight.notifying import Notice


def subject(notice: Notice) -> str:
    return f"Dự án {notice.project} đã phân tích xong · project finished"


def text(notice: Notice) -> str:
    """A few lines for people; the numbers are those of the finish line."""
    total, done, errors = (notice.counts[name] for name in ("total", "done", "errors"))
    lines = [
        f"Dự án {notice.project} đã phân tích xong: {done} / {total} bài, {errors} lỗi.",
        f"Project {notice.project} is analysed: {done} of {total} posts, {errors} failed.",
    ]
    if notice.report_url:
        lines.append(f"Báo cáo / report: {notice.report_url}")
    return "\n".join(lines)


def is_web_address(text: str) -> bool:
    """Whether it leads to the web and nowhere else. Anybody may have written it: what cannot be understood does not."""
    try:
        return urlsplit(text).scheme in ("http", "https") and bool(urlsplit(text).hostname)
    except ValueError:
        return False
