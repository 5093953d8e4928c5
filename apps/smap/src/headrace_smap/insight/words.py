"""What a notification says, in Vietnamese and English."""

from __future__ import annotations

from urllib.parse import urlsplit

from headrace_smap.insight.notices import COUNTS, Notice


def subject(notice: Notice) -> str:
    return f"Dự án {notice.project} đã phân tích xong · project finished"


def text(notice: Notice) -> str:
    """A few lines for people; the numbers are those of the finish line, where they are known."""
    vietnamese, english = f"Dự án {notice.project} đã phân tích xong", f"Project {notice.project} is analysed"
    if notice.counts:
        total, done, errors = (notice.counts[name] for name in COUNTS)
        vietnamese += f": {done} / {total} bài, {errors} lỗi"
        english += f": {done} of {total} posts, {errors} failed"
    lines = [f"{vietnamese}.", f"{english}."]
    if notice.report_url:
        lines.append(f"Báo cáo / report: {notice.report_url}")
    return "\n".join(lines)


def is_web_address(text: str) -> bool:
    """Whether it leads to the web and nowhere else. Anybody may have written it: what cannot be understood does not."""
    try:
        return urlsplit(text).scheme in ("http", "https") and bool(urlsplit(text).hostname)
    except ValueError:
        return False
