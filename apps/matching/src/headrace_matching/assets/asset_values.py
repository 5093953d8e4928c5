"""Assets and their features as values, and what they must look like."""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from headrace_matching.events.names import AssetKind

VECTOR_MAX = 16_384
POINTS_MAX = 100_000
DTYPES = {
    "uint8": 1,
    "int8": 1,
    "uint16": 2,
    "int16": 2,
    "uint32": 4,
    "int32": 4,
    "uint64": 8,
    "int64": 8,
    "float16": 2,
    "float32": 4,
    "float64": 8,
}
"""Types of descriptors, and their sizes in bytes."""
OCTETS = "application/octet-stream"
SHOWN_AS_THEY_ARE = frozenset(
    ("image/bmp", "image/gif", "image/jpeg", "image/png", "image/tiff", "image/webp", "image/avif")
)
"""What a browser shows and runs nothing of; everything else is served as bytes."""


class BadFeature(ValueError):
    """A vector or keypoints that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class NewAsset:
    """An asset that a collector brings: with bytes, at a URL, or dead with a reason."""

    kind: AssetKind
    owner_id: str
    time_s: float | None = None
    content: bytes | None = None
    media_type: str = ""
    url: str | None = None
    dead: str | None = None

    @property
    def sha256(self) -> str | None:
        return None if self.content is None else hashlib.sha256(self.content).hexdigest()

    def id_in(self, job: str) -> str:
        """The same content of the same owner in the same job is the same asset."""
        what = self.sha256 or self.url or self.dead
        parts = (job, self.kind.value, self.owner_id, self.time_s, what)
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Descriptors:
    """An array as it is sent: row-major, little-endian."""

    dtype: str
    shape: tuple[int, ...]
    base64: str


def pack_vector(values: Sequence[float]) -> bytes:
    """A vector as it is kept, or `BadFeature`."""
    if not 1 <= len(values) <= VECTOR_MAX:
        raise BadFeature(f"vector: has {len(values):,} numbers, and must have 1 to {VECTOR_MAX:,}")
    packed = array("d", values)
    if not all(map(math.isfinite, packed)):
        raise BadFeature("vector: holds what is no finite number")
    return packed.tobytes()


def unpack_vector(packed: bytes) -> list[float]:
    return array("d", packed).tolist()


def check_keypoints(points: Sequence[Sequence[float]], descriptors: Descriptors) -> None:
    """`BadFeature` if points and descriptors are not each other's, or hold what cannot be read."""
    if len(points) > POINTS_MAX:
        raise BadFeature(f"points: {len(points):,} are over POINTS_MAX = {POINTS_MAX:,}")
    if not all(len(point) == 4 and all(map(math.isfinite, point)) for point in points):
        raise BadFeature("points: each is [x, y, size, angle], four finite numbers")
    if descriptors.dtype not in DTYPES:
        raise BadFeature(f"descriptors.dtype: is one of {', '.join(DTYPES)}")
    if len(descriptors.shape) != 2 or descriptors.shape[0] != len(points) or min(descriptors.shape) < 0:
        raise BadFeature(f"descriptors.shape: is [{len(points)}, n], a row for each point")
    try:
        size = len(base64.b64decode(descriptors.base64, validate=True))
    except (binascii.Error, ValueError):
        raise BadFeature("descriptors.base64: is no base64") from None
    wanted = math.prod(descriptors.shape) * DTYPES[descriptors.dtype]
    if size != wanted:
        raise BadFeature(f"descriptors.base64: holds {size:,} bytes, and dtype and shape say {wanted:,}")
