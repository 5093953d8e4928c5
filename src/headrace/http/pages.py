"""HTML of our own: one document that brings its style and script along, and may do nothing else.

The policy of the page names its blocks by their hashes. What a value smuggled into the page does not run, because its
hash is not there; nothing is loaded from elsewhere, because nothing else is allowed.
"""

from __future__ import annotations

import base64
import hashlib
import re

from starlette.responses import Response

_BLOCK = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


def page(html: str, status: int = 200) -> Response:
    """A page whose `<style>` and `<script>` blocks (without attributes) are allowed and nothing else is: no style
    attributes, no event attributes, no other scripts. It may ask its own service, and show images of it or `data:`."""
    # A browser reads CR LF as LF before it hashes.
    html = html.replace("\r\n", "\n")
    headers = {"Content-Security-Policy": policy_of(html)}
    return Response(html, status, headers, "text/html; charset=utf-8")


def policy_of(html: str) -> str:
    """The policy that fits this page."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _BLOCK.findall(html):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
    sources = {kind: " ".join(found) or "'none'" for kind, found in hashes.items()}
    return (
        f"default-src 'none'; script-src {sources['script']}; style-src {sources['style']}; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
