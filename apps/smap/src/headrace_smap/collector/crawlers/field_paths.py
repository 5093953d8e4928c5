"""Where a field lies in an item of somebody else's.

statistics.viewCount                        in JSON: names and numbers, separated by points
media:statistics@views                      in RSS and Atom: an element wherever it lies in the entry, its attribute
slash:comments|thr:total                    the first that is there
https://host/watch?v={id}                   a text with paths in it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_PLACE = re.compile(r"\{([^{}]+)\}")


def at_path(document: Any, path: str) -> Any:
    """`data.items`, `paging.next`, `0.list`: what lies there, or None."""
    for step in path.split("."):
        if isinstance(document, dict):
            document = document.get(step)
        elif isinstance(document, list) and step.isdigit() and int(step) < len(document):
            document = document[int(step)]
        else:
            return None
    return document


def at_element(entry: Any, path: str) -> Any:
    """The text of an element of an entry, or one of its attributes. The reader of feeds keeps elements under their
    names in one level, with the usual prefix of their namespace."""
    element, _, attribute = path.rpartition("/")[2].partition("@")
    found = entry.get(element.replace(":", "_").lower())
    if attribute:
        return found.get(attribute.lower()) if isinstance(found, dict) else None
    return found


def mapped(source: Mapping[str, Any], wanted: str, find: Callable[[Any, str], Any]) -> Any:
    """What a field's option says of an item; None if nothing of it is there."""
    if not _PLACE.search(wanted):
        found = (find(source, path.strip()) for path in wanted.split("|"))
        return next((value for value in found if value not in (None, "")), None)
    values = {path: find(source, path) for path in _PLACE.findall(wanted)}
    if all(value in (None, "") for value in values.values()):
        return None
    return _PLACE.sub(lambda place: "" if values[place[1]] is None else str(values[place[1]]), wanted).strip()
