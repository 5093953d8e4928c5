"""Trace context of the W3C: which trace a request or an event belongs to, as the text `traceparent`.

Nothing here records spans, so a trace that somebody began is passed on as it is: what follows is the child of the span
that they know.
"""

from __future__ import annotations

import re

TRACEPARENT = "traceparent"
SAMPLED = "01"
_NOBODY = re.compile(r"0+")
_FORM = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.{0,200})?")


def read_traceparent(text: str) -> str:
    """The text if it is one, else nothing. Of later versions the known part is passed on, as version 00."""
    found = _FORM.fullmatch(text.strip())
    if found is None or _NOBODY.fullmatch(found[2]) or _NOBODY.fullmatch(found[3]):
        return ""
    if found[1] == "00":
        return "" if found[4] else found[0]
    return f"00-{found[0][3:55]}"


def make_traceparent(trace_id: str, span_id: str) -> str:
    """One of a new trace, from 32 and 16 hexadecimal digits; sampled, so that who records spans records these."""
    return f"00-{trace_id}-{span_id}-{SAMPLED}"
