"""Is the thing of one picture seen in the other? By keypoints, and by whether their places agree.

1. Each descriptor of the first picture looks for its nearest one in the second, and keeps it only if the second
   nearest is clearly farther (Lowe's ratio) and if it is the nearest one in the other direction too.
2. A homography (a plane seen from elsewhere) is sought that as many of these pairs as possible agree with.
3. The homography must be one that a camera can make: not mirrored, not folded, not torn to a line or
   across the horizon.
4. Pairs that agree are counted once per place: fifty on one word are a word, not a product.

The score is the probability that it is the same thing, by a logistic curve over what distinguished the pairs of worlds
that are not used to judge it (`bench/matching_vision.py --calibrate` fits it again).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from headrace_matching.vision.keypoints import Keypoints

RATIO_MAX = 0.8
PAIRS_MIN = 6
"""Four pairs always agree with some homography; below six there is nothing to be counted."""
AGREE_PIXELS = 5.0
TRIALS_MAX = 400
CONFIDENCE = 0.995
SIZE_MIN, SIZE_MAX = 0.04, 12.0
"""How much smaller or larger, by length, a thing may be seen."""
STRETCH_MAX = 4.0
CELLS = 8
"""The first picture's keypoints are spread over so many cells each way, by which places are counted."""

CONSTANT, BY_INLIERS, BY_CELLS, BY_SHARE = -20.27, 0.38, 6.81, 9.12
"""Fitted on worlds of the seed 101, all difficulties, and on two without matches (102, 103): without these, things of a
known brand were taken for products too often. How many inliers there are adds next to nothing to in how many cells
they lie, but it orders frames that are otherwise equal. Their candidates came from an earlier index and other words on
the products, so fitting again gives somewhat other numbers."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found about one pair of pictures."""

    score: float
    inliers: int
    cells: int
    """Places of the first picture in which inliers lie."""
    share: float
    """Of the places of the first picture that should be seen in the second, how many are."""
    homography: NDArray[np.float64] | None
    pairs: NDArray[np.int32]
    """Rows (place in the first, place in the second) of the keypoints that agree."""


NOTHING = Verification(0.0, 0, 0, 0.0, None, np.empty((0, 2), np.int32))


def verify(first: Keypoints, second: Keypoints) -> Verification:
    """How likely the thing that fills the first picture is seen in the second; of different models, not at all."""
    if min(len(first), len(second)) < PAIRS_MIN or not first.comparable(second):
        return NOTHING
    pairs = tentative(first, second)
    if len(pairs) < PAIRS_MIN:
        return NOTHING
    origin, target = first.points[pairs[:, 0], :2], second.points[pairs[:, 1], :2]
    # Its types say that there always is a homography; there is none for points on a line.
    fitted: Any = cv2.findHomography(origin, target, cv2.USAC_MAGSAC, AGREE_PIXELS, None, TRIALS_MAX, CONFIDENCE)
    found, agree = fitted
    if found is None or agree is None:
        return NOTHING
    kept = agree.ravel() > 0
    if kept.sum() < PAIRS_MIN or not possible(found, origin[kept]):
        return NOTHING
    return _counted(first, second, found, pairs[kept])


def tentative(first: Keypoints, second: Keypoints) -> NDArray[np.int32]:
    """Rows (place in the first, place in the second) of descriptors that prefer each other clearly."""
    near, at = _two_nearest(first, second)
    chosen = np.flatnonzero(near[:, 0] < RATIO_MAX * near[:, 1])
    if not len(chosen):
        return np.empty((0, 2), np.int32)
    targets = at[chosen]
    # Of several that chose the same one, the nearest keeps it: this is what asking the other way round would give.
    order = np.argsort(near[chosen, 0], kind="stable")
    _, once = np.unique(targets[order], return_index=True)
    best = order[once]
    return np.stack([chosen[best], targets[best]], axis=1).astype(np.int32)


def possible(homography: NDArray[np.float64], points: NDArray[np.float32]) -> bool:
    """Whether a camera can make this of the box around these points."""
    if not np.isfinite(homography).all():
        return False
    (left, top), (right, bottom) = points.min(axis=0), points.max(axis=0)
    box = np.array([[left, top, 1], [right, top, 1], [right, bottom, 1], [left, bottom, 1]], np.float64)
    depth = box @ homography[2]
    # Where the depth changes its sign a part of the thing would be behind the camera.
    if (depth <= 0).any() != (depth <= 0).all() or abs(depth).min() < 1e-9 or abs(depth).max() > 4 * abs(depth).min():
        return False
    seen = (box @ homography.T)[:, :2] / depth[:, None]
    edges = np.roll(seen, -1, axis=0) - seen
    after = np.roll(edges, -1, axis=0)
    turns = edges[:, 0] * after[:, 1] - edges[:, 1] * after[:, 0]
    # All corners turn the same way as in the box itself: neither folded nor mirrored.
    if (turns <= 0).any():
        return False
    sides = np.linalg.norm(edges, axis=1) / [right - left, bottom - top, right - left, bottom - top]
    return bool(sides.min() >= SIZE_MIN and sides.max() <= SIZE_MAX and sides.max() <= STRETCH_MAX * sides.min())


def _two_nearest(first: Keypoints, second: Keypoints) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Distances to the two nearest of the second picture (n × 2), and the place of the nearest one."""
    if first.are_bits:
        near, at = cv2.batchDistance(first.descriptors, second.descriptors, cv2.CV_32S, normType=cv2.NORM_HAMMING, K=2)
        return near.astype(np.float32), at[:, 0].astype(np.int64)
    # As one product of matrices this takes a fourth of the time of OpenCV's matcher, to the same result.
    one, other = first.descriptors.astype(np.float32), second.descriptors.astype(np.float32)
    apart = one @ other.T
    apart *= -2
    apart += np.einsum("ij,ij->i", other, other)
    rows, nearest = np.arange(len(one)), apart.argmin(axis=1)
    closest = apart[rows, nearest]
    apart[rows, nearest] = np.inf
    both = np.stack([closest, apart.min(axis=1)], axis=1) + np.einsum("ij,ij->i", one, one)[:, None]
    return np.sqrt(np.maximum(both, 0)), nearest


def _counted(
    first: Keypoints, second: Keypoints, homography: NDArray[np.float64], pairs: NDArray[np.int32]
) -> Verification:
    places = first.points[:, :2]
    low, high = places.min(axis=0), places.max(axis=0)
    cell = np.minimum((places - low) / np.maximum(high - low, 1e-6) * CELLS, CELLS - 1).astype(np.int32) @ [CELLS, 1]
    seen = cv2.perspectiveTransform(places[None].astype(np.float64), homography)[0]
    edge = second.points[:, :2]
    inside = ((seen >= edge.min(axis=0)) & (seen <= edge.max(axis=0))).all(axis=1)
    expected = np.unique(cell[inside])
    cells = len(np.unique(cell[pairs[:, 0]]))
    share = min(1.0, cells / max(1, len(expected)))
    return Verification(likelihood(len(pairs), cells, share), len(pairs), cells, share, homography, pairs)


def likelihood(inliers: int, cells: int, share: float) -> float:
    """The probability that it is the same thing."""
    drawn = CONSTANT + BY_INLIERS * math.log1p(inliers) + BY_CELLS * math.log1p(cells) + BY_SHARE * share
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, drawn))))
