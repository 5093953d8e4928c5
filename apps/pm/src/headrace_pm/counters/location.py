"""The location of an object: pairs key=value, separated by commas, and what follows from them.

`gNodeB Function Name=HN01, NR Cell ID=3, NodeFunction=gNodeB`: the object of a performance file. Keys are compared
without case and kept in lower case; of a key that comes twice the last one counts, and a piece without `=` is no pair.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

import msgspec

NODE_FUNCTION = "nodefunction"
# What the language of the text calls white space at the ends: everything up to the space, and nothing else.
_BLANK = "".join(map(chr, range(0x21)))
_BLANK_BYTES = _BLANK.encode()
# A file names an object once for each period in it; elements name other objects. What is longer than any real one is
# not kept, so that no file can fill the memory with it.
_KNOWN_MAX, _KNOWN_BYTES_MAX = 2_048, 512
_ENCODE = msgspec.json.Encoder().encode


def trimmed(location: bytes) -> bytes:
    """Without blanks at its ends: the form in which a location is an identity."""
    return location.strip(_BLANK_BYTES)


def pairs(location: bytes) -> dict[str, str]:
    """All pairs of a location. What is no UTF-8 is replaced."""
    found = {}
    for piece in location.decode("utf-8", "replace").split(","):
        key, is_pair, value = piece.partition("=")
        if is_pair:
            found[key.strip(_BLANK).lower()] = value.strip(_BLANK)
    return found


class LocationFacts(NamedTuple):
    """What follows from a location alone: all pairs as the JSON object of the column `extra_field`, and the function of
    the node in lower case, '' if none is named."""

    extra_field: bytes
    node_function: str


def location_facts(location: bytes) -> LocationFacts:
    """What follows from a location that is trimmed."""
    return known_facts(location) if len(location) <= _KNOWN_BYTES_MAX else _facts(location)


def _facts(location: bytes) -> LocationFacts:
    found = pairs(location)
    return LocationFacts(_ENCODE(found), found.get(NODE_FUNCTION, "").lower())


known_facts = lru_cache(_KNOWN_MAX)(_facts)


def object_hash(location: bytes, cell: int) -> int:
    """The first 8 bytes of the SHA-256 of a location that is trimmed, `|` and the cell; their hexadecimal form is the
    beginning of the digest's."""
    return int.from_bytes(sha256(b"%b|%d" % (location, cell)).digest()[:8])
