"""Points that are found again when a thing is seen from elsewhere, and a description of what is around each.

SIFT is the default: it bears turns, sizes and light, which is what videos do to products. ORB takes a fifth of the
time and finds less. Points are told in pixels of the asset as it is shown (upright), whatever size was looked at.

Descriptors are bytes: SIFT's are whole numbers up to 255 anyway, and as bytes they take a quarter of the room on the
wire and in memory. Rows of up to 64 bytes are bits (ORB, BRISK, AKAZE), longer ones and floats are numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from headrace.errors import CallerError
from headrace_matching.vision.pictures import Picture
from headrace_matching.vision.threads import one_thread_each

POINTS_MAX = 800
"""Of a picture of 640 pixels more are found only where there is noise or gravel, and each costs time in every pair."""
CONTRAST_MIN = 0.03
"""A little below OpenCV's 0.04, because dark scenes have little."""
EDGE_MAX = 10.0
ROOT_SCALE = 512
"""A share of a quarter is the largest number of a byte; more has hardly ever been seen."""
_BITS_WIDTH_MAX = 64


@dataclass(frozen=True, slots=True)
class Keypoints:
    """Points (n × 4: x, y, size, angle in degrees) with a descriptor each (n × width); the strongest come first."""

    model: str
    points: NDArray[np.float32]
    descriptors: NDArray[Any]

    def __post_init__(self) -> None:
        if self.points.ndim != 2 or self.points.shape[1] != 4 or not np.isfinite(self.points).all():
            raise CallerError(f"points are n × 4 finite numbers, these are {self.points.shape}")
        if self.descriptors.ndim != 2 or len(self.descriptors) != len(self.points):
            raise CallerError(f"{len(self.points)} points have descriptors of the shape {self.descriptors.shape}")
        if self.descriptors.dtype not in (np.uint8, np.float32):
            raise CallerError(f"descriptors are uint8 or float32, these are {self.descriptors.dtype}")
        if self.descriptors.dtype == np.float32 and not np.isfinite(self.descriptors).all():
            raise CallerError("descriptors are finite numbers")

    def __len__(self) -> int:
        return len(self.points)

    @property
    def are_bits(self) -> bool:
        """Whether descriptors differ by the bits that differ, and not by a distance of numbers."""
        return self.descriptors.dtype == np.uint8 and self.descriptors.shape[1] <= _BITS_WIDTH_MAX

    def comparable(self, other: Keypoints) -> bool:
        """Whether they are of one model; others have nothing to say to each other."""
        return self.model == other.model and self.descriptors.shape[1] == other.descriptors.shape[1]

    def strongest(self, count: int) -> Keypoints:
        return Keypoints(self.model, self.points[:count], self.descriptors[:count])


class KeypointFinder(Protocol):
    """Finds the keypoints of a picture. Several threads may use one at once."""

    @property
    def model(self) -> str:
        """What is compared only with its like; it changes whenever the same picture would give other descriptors."""

    def find(self, picture: Picture) -> Keypoints:
        """At most `POINTS_MAX`, the strongest first; a picture without any gives none."""


class SiftFinder:
    """Scale-invariant features: 128 directions of light around each point, as the roots of their shares."""

    model = "rootsift-1"

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        one_thread_each()
        self._points_max = points_max

    def find(self, picture: Picture) -> Keypoints:
        # An object of OpenCV keeps what it computes in itself: one per call, so that lanes can share a finder.
        finder = cv2.SIFT.create(self._points_max, 3, CONTRAST_MIN, EDGE_MAX, 1.6, cv2.CV_32F)
        found = _found(self.model, finder, picture, self._points_max, 128)
        # Roots of shares compare as histograms should (Arandjelović and Zisserman, 2012): large bins count less.
        shares = found.descriptors / np.maximum(found.descriptors.sum(axis=1, keepdims=True), 1)
        rooted = np.clip(np.rint(ROOT_SCALE * np.sqrt(shares)), 0, 255).astype(np.uint8)
        return Keypoints(self.model, found.points, rooted)


class OrbFinder:
    """Oriented bits: 256 comparisons around each corner."""

    model = "orb-1"

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        one_thread_each()
        self._points_max = points_max

    def find(self, picture: Picture) -> Keypoints:
        finder = cv2.ORB.create(nfeatures=self._points_max, scaleFactor=1.2, nlevels=8, fastThreshold=12)
        return _found(self.model, finder, picture, self._points_max, 32)


def _found(model: str, finder: Any, picture: Picture, points_max: int, width: int) -> Keypoints:
    grey = cv2.cvtColor(picture.pixels, cv2.COLOR_BGR2GRAY)
    found, descriptors = finder.detectAndCompute(grey, None)
    if descriptors is None or not found:
        return Keypoints(model, np.empty((0, 4), np.float32), np.empty((0, width), np.uint8))
    order = sorted(range(len(found)), key=lambda at: -found[at].response)[:points_max]
    told = [(*found[at].pt, found[at].size, found[at].angle) for at in order]
    points = np.array(told, np.float32)
    # The middle of a pixel is at a half: a point stays where it is on the thing, whatever the size.
    points[:, :2] = (points[:, :2] + 0.5) * picture.scale - 0.5
    points[:, 2] *= picture.scale
    return Keypoints(model, points, np.ascontiguousarray(descriptors[order]))
