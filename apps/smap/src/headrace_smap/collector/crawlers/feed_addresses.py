"""The address of a feed with its places filled in from a task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import parse_qs, quote, urlsplit

from headrace_smap.collector.tasks import CrawlFailed, CrawlTask

TARGET = "{target}"
_PLACE = re.compile(r"\{(keyword|day|start|end|start_at|end_at|platform|target)\}")
# It becomes a part of a path under our token: nothing that could lead elsewhere.
_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9@._-]{1,100}")


def filled(template: str, task: CrawlTask) -> str:
    """The template for a task. A parameter of the query whose places all stay empty is left out."""
    values = _values(task, TARGET in template)
    address, mark, query = template.partition("?")
    pieces = [_fill(piece, values) for piece in query.split("&") if not _is_blank(piece, values)]
    return _fill(address, values) + mark + "&".join(pieces)


def target_name(url: str) -> str:
    """What a target's address names: its channel or page, which is its last part or an id in its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise CrawlFailed("the address of the target cannot be understood") from None
    asked = parse_qs(parts.query)
    last = parts.path.strip("/").rpartition("/")[2]
    name = next((asked[key][0] for key in ("channel_id", "id") if key in asked), last)
    if not _NAME.fullmatch(name):
        raise CrawlFailed("the address of the target ends with no name of a page or channel")
    return name


def _values(task: CrawlTask, has_target: bool) -> Mapping[str, str]:
    return {
        "keyword": task.keyword,
        "day": task.day,
        "start": task.start,
        "end": task.end,
        "start_at": _written(task.start_at),
        "end_at": _written(task.end_at),
        "platform": task.platform,
        "target": target_name(task.url) if has_target else "",
    }


def _written(moment: datetime | None) -> str:
    return moment.isoformat().replace("+00:00", "Z") if moment else ""


def _fill(text: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: quote(values[place[1]], safe=""), text)


def _is_blank(piece: str, values: Mapping[str, str]) -> bool:
    places = _PLACE.findall(piece)
    return bool(places) and not any(values[name] for name in places)
