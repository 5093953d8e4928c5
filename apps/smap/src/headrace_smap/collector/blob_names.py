"""Names that come from others and become part of a blob's path: checked first, and replaced by a digest if they fail.

A digest is not a readable name, but it is always a legal one, it fits into every file system, and two names never meet.
"""

from __future__ import annotations

import hashlib
import re

PLATFORM_CHARS_MAX = 40
_PLATFORM = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{PLATFORM_CHARS_MAX - 1}}}")
# Capital letters are safe: neither S3 nor the file systems that obstore is made for fold them.
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_DIGEST_MARK = "id="


def platform_name(given: str) -> str:
    """A platform's name as it is compared and stored: lower case, and safe as a segment of a path."""
    name = given.strip().lower()
    if not _PLATFORM.fullmatch(name):
        raise ValueError(f"{given[:60]!r} is not the name of a platform: letters, digits, - and _")
    return name


def blob_path(platform: str, project: str, post: str) -> str:
    """Where a raw post lies; this is also its identity in the project."""
    return f"raw/{platform}/{segment(project)}/{segment(post)}.json"


def blob_prefix(platform: str, project: str) -> str:
    """What the paths of all posts of a project on a platform begin with."""
    return f"raw/{platform}/{segment(project)}"


def segment(name: str) -> str:
    """A name as one segment of a path: itself if it is plain, else a digest that no plain name can equal."""
    if _PLAIN.fullmatch(name):
        return name
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{_DIGEST_MARK}{digest}"
