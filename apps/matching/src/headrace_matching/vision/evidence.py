"""A picture for a person who doubts a match: the product, the frame, and lines between the points that agree."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from headrace_matching.vision.keypoints import Keypoints
from headrace_matching.vision.pictures import Picture
from headrace_matching.vision.threads import one_thread_each
from headrace_matching.vision.verification import Verification

HEIGHT = 420
GAP = 8
LINES_MAX = 60
"""More lines than this are a surface; the ones drawn are spread over all."""
STRIP = 34
_OUTLINE, _BACKDROP, _INK = (60, 200, 60), (24, 24, 24), (235, 235, 235)


def draw(image: Picture, frame: Picture, keypoints: tuple[Keypoints, Keypoints], verified: Verification) -> bytes:
    """A PNG: the product's picture on the left, the frame on the right with the outline of the product in it."""
    one_thread_each()
    left, left_scale = _fitted(image)
    right, right_scale = _fitted(frame)
    offset = left.shape[1] + GAP
    drawn = np.full((HEIGHT + STRIP, offset + right.shape[1], 3), _BACKDROP, np.uint8)
    drawn[:HEIGHT, : left.shape[1]] = left
    drawn[:HEIGHT, offset:] = right
    if verified.homography is not None:
        width, height = image.width, image.height
        corners = np.array([[[0, 0], [width, 0], [width, height], [0, height]]], np.float64)
        seen = cv2.perspectiveTransform(corners, verified.homography)[0] * right_scale + (offset, 0)
        # Only on the frame: a product that is cut off there would be outlined across its own picture.
        _clipped_outline(drawn, seen, offset)
    _lines(drawn, keypoints, verified, (left_scale, right_scale, offset))
    told = f"score {verified.score:.3f}   {verified.inliers} points agree   {verified.cells} places"
    cv2.putText(drawn, told, (8, HEIGHT + 23), cv2.FONT_HERSHEY_SIMPLEX, 0.55, _INK, 1, cv2.LINE_AA)
    _, packed = cv2.imencode(".png", drawn, [cv2.IMWRITE_PNG_COMPRESSION, 6])
    return packed.tobytes()


def _fitted(picture: Picture) -> tuple[NDArray[np.uint8], float]:
    """The picture at the common height, and by what a coordinate of its asset is multiplied to be found there."""
    height, width = picture.pixels.shape[:2]
    wide = max(1, min(2 * HEIGHT, round(width * HEIGHT / height)))
    scale = wide / width
    tall = min(HEIGHT, max(1, round(height * scale)))
    shrunk = cv2.resize(picture.pixels, (wide, tall), interpolation=cv2.INTER_AREA)
    whole = np.full((HEIGHT, wide, 3), _BACKDROP, np.uint8)
    whole[:tall] = shrunk
    return whole, scale / picture.scale


def _clipped_outline(drawn: NDArray[np.uint8], corners: NDArray[np.float64], offset: int) -> None:
    if not np.isfinite(corners).all():
        return
    part = np.ascontiguousarray(drawn[:HEIGHT, offset:])
    places = np.clip(corners - (offset, 0), -10_000, 10_000)
    cv2.polylines(part, [np.rint(places).astype(np.int32)], True, _OUTLINE, 2, cv2.LINE_AA)
    drawn[:HEIGHT, offset:] = part


def _lines(
    drawn: NDArray[np.uint8],
    keypoints: tuple[Keypoints, Keypoints],
    verified: Verification,
    places: tuple[float, float, int],
) -> None:
    left_scale, right_scale, offset = places
    pairs = verified.pairs
    chosen = pairs[np.linspace(0, len(pairs) - 1, min(len(pairs), LINES_MAX)).astype(int)] if len(pairs) else pairs
    for number, (first, second) in enumerate(chosen):
        start = np.rint(keypoints[0].points[first, :2] * left_scale).astype(int)
        end = np.rint(keypoints[1].points[second, :2] * right_scale).astype(int)
        end[0] += offset
        colour = _colour(number)
        cv2.line(drawn, start.tolist(), end.tolist(), colour, 1, cv2.LINE_AA)
        for at in (start, end):
            cv2.circle(drawn, at.tolist(), 3, colour, 1, cv2.LINE_AA)


def _colour(number: int) -> tuple[int, int, int]:
    """Neighbouring lines get colours far apart."""
    blue, green, red = cv2.cvtColor(np.array([[(number * 67 % 180, 200, 255)]], np.uint8), cv2.COLOR_HSV2BGR)[0, 0]
    return int(blue), int(green), int(red)
