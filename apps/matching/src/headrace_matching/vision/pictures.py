"""Bytes of a picture become pixels, or a reason why not.

The bytes come from shops and crawlers, so nothing about them is believed. What they are is seen in them and not in a
name or a content type; only formats of the list are tried; the declared size is compared with the limits before a
pixel is decoded; and a decoder may raise what it likes, it only ever ends this picture.

Pictures are kept small: what finds and compares them works on `side_kept` pixels, and a large photograph costs as much
as a small one. A JPEG is decoded at an eighth, a quarter or a half at once where that is still large enough. `scale`
leads back to the pixels of the asset, in which the coordinates of keypoints are told.

Pillow and not OpenCV decodes: it tells the size before it decodes, refuses what is cut off (OpenCV fills it with grey),
knows CMYK, palettes, sixteen bits and orientation, and releases the interpreter while it decodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from headrace_matching.vision.assets import BadAsset

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
SCANS_MAX = 100
"""Encoders make about ten."""
_REDUCE_MARGIN = 2
"""Reduced by whole steps to no less than so many times what is kept, then resampled properly."""
_HAVE_MEANS = ("L", "LA", "RGB", "RGBA", "CMYK")
_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_LYING = {_TURNS[5], _TURNS[6], _TURNS[7], _TURNS[8]}
_TEXT = (b"<svg", b"<?xml", b"<html", b"<!doctype", b"<head", b"<body", b"{", b"[")


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """What a picture may be."""

    bytes_max: int = 32 << 20
    pixels_max: int = 40_000_000
    """A camera of 2026 makes these. Four bytes each and a copy are 320 MB, which is the most that decoding may take."""
    side_max: int = 16_000
    side_min: int = 16
    """Below this nothing can be told from anything."""
    side_kept: int = 640
    """Of more, only time is spent: keypoints of a product found at 640 are found at 2,000 too."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Pixels (height × width × 3; blue, green, red) that are `scale` times smaller than the asset."""

    pixels: NDArray[np.uint8]
    scale: float
    width: int
    height: int


def read(data: bytes, limits: PictureLimits | None = None) -> Picture:
    """The picture in these bytes: upright, the first of an animated one, on white where it is transparent. Raises
    `BadAsset`."""
    limits = limits or PictureLimits()
    if not data:
        raise BadAsset("empty: it has no bytes")
    if len(data) > limits.bytes_max:
        raise BadAsset(f"too large: {len(data):,} bytes, at most {limits.bytes_max:,}")
    try:
        with _opened(data) as image:
            _check_size(image.size, limits)
            _check_scans(data, image.format)
            return _decoded(image, limits)
    except (BadAsset, MemoryError):
        raise
    except Exception as error:
        # Decoders raise whatever their own code stumbles over: OSError, SyntaxError, struct.error, IndexError, …
        raise BadAsset(f"corrupt: {error or type(error).__name__}") from error


def _opened(data: bytes) -> Image.Image:
    try:
        return Image.open(BytesIO(data), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        # It has limits of its own, far above ours; where warnings are errors, one of them is one.
        raise BadAsset(f"too large: {error}") from error
    except UnidentifiedImageError as error:
        raise BadAsset(_unknown(data)) from error


def _unknown(data: bytes) -> str:
    """Bytes that no decoder of the list knows; the reason is for a person who looks for the mistake."""
    start = data[:64].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(_TEXT):
        return "not a picture: it is text (SVG, HTML, XML or JSON)"
    if start.startswith(b"pk\x03\x04"):
        return "not a picture: it is a ZIP archive"
    return f"not a picture: none of {', '.join(FORMATS)}"


def _check_size(size: tuple[int, int], limits: PictureLimits) -> None:
    width, height = size
    told = f"{width:,} × {height:,} pixels"
    if min(width, height) < limits.side_min:
        raise BadAsset(f"too small: {told}, at least {limits.side_min} each way")
    if max(width, height) > limits.side_max:
        raise BadAsset(f"too large: {told}, at most {limits.side_max:,} each way")
    if width * height > limits.pixels_max:
        raise BadAsset(f"too large: {told}, at most {limits.pixels_max:,} together")


def _check_scans(data: bytes, kind: str | None) -> None:
    """Each scan of a progressive JPEG goes over the whole picture, and may take no more than a few bytes."""
    scans = data.count(b"\xff\xda") if kind == "JPEG" else 0
    if scans > SCANS_MAX:
        raise BadAsset(f"too laborious: {scans:,} scans, at most {SCANS_MAX}")


def _decoded(image: Image.Image, limits: PictureLimits) -> Picture:
    width, height = image.size
    room = limits.side_kept * _REDUCE_MARGIN
    image.draft(None, (room, room))
    image.load()
    turn = _TURNS.get(_orientation(image))
    small = _opaque(_reduced(image, room))
    small.thumbnail((limits.side_kept, limits.side_kept), Image.Resampling.BOX)
    if turn is not None:
        small = small.transpose(turn)
    if turn in _LYING:
        width, height = height, width
    pixels = np.ascontiguousarray(np.asarray(small, np.uint8)[:, :, ::-1])
    return Picture(pixels, max(width, height) / max(pixels.shape[:2]), width, height)


def _orientation(image: Image.Image) -> int:
    """How a camera was held. Metadata that cannot be read is no reason to lose the picture."""
    try:
        told = image.getexif().get(_ORIENTATION, 1)
    except Exception:
        return 1
    return told if isinstance(told, int) else 1


def _reduced(image: Image.Image, room: int) -> Image.Image:
    """Made smaller by a whole factor before it is laid on white, so that copies of all pixels are few."""
    if image.mode.startswith("I"):
        # Sixteen bits of grey would be cut off at 255 and not scaled.
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    factor = max(image.size) // room
    if factor < 2:
        return image
    # Numbers of colours in a palette have no mean.
    return (image if image.mode in _HAVE_MEANS else image.convert("RGBA")).reduce(factor)


def _opaque(image: Image.Image) -> Image.Image:
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        solid = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", solid.size, "white"), solid)
    return image.convert("RGB")
