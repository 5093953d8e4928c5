"""Which pictures of products may be in a frame: asked of all at once, so that only few are verified one by one.

Two ways, because each fails where the other works. Embeddings see that a frame looks like a picture as a whole.
Keypoints find a small thing in a full room: each descriptor of the frame asks for its nearest ones among those of all
pictures and votes for theirs, by how much nearer they are than the last of them. Votes count together only if they
agree on how much the thing was turned and enlarged, since all of a thing is turned and enlarged alike.

Only equal models are compared, so there is an index per model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace_matching.vision.features import AssetFeatures
from headrace_matching.vision.keypoints import Keypoints
from headrace_matching.vision.neighbours import Neighbours

INDEXED_MAX = 500
"""So many of the strongest descriptors of a picture can be voted for; more cost more and find hardly more."""
NEIGHBOURS = 6
LISTS = 4
TURNS = 12
SIZES = 8
"""Turns of 30 degrees and sizes of a factor of two, from a sixteenth to sixteen times."""


@dataclass(frozen=True, slots=True)
class CandidateLimits:
    """How many pictures per frame are verified at most."""

    by_keypoints: int = 10
    by_embedding: int = 3


class CandidateIndex:
    """Pictures of products that frames can ask, from several threads at once."""

    def __init__(self, pictures: Sequence[AssetFeatures]) -> None:
        votes: dict[tuple[str, int], list[int]] = {}
        vectors: dict[tuple[str, int], list[int]] = {}
        for place, each in enumerate(pictures):
            if each.keypoints is not None and len(each.keypoints):
                votes.setdefault(_kind(each.keypoints), []).append(place)
            if each.embedding is not None:
                vectors.setdefault((each.embedding.model, len(each.embedding.vector)), []).append(place)
        self._votes = {kind: _VoteIndex(pictures, places) for kind, places in votes.items()}
        self._vectors = {kind: _VectorIndex(pictures, places) for kind, places in vectors.items()}

    def of(self, frame: AssetFeatures, limits: CandidateLimits) -> list[int]:
        """Places of the pictures that may be in the frame, likeliest first."""
        found: dict[int, None] = {}
        if frame.keypoints is not None and len(frame.keypoints):
            voted = self._votes.get(_kind(frame.keypoints))
            found |= dict.fromkeys(voted.of(frame.keypoints, limits.by_keypoints) if voted else ())
        if frame.embedding is not None:
            near = self._vectors.get((frame.embedding.model, len(frame.embedding.vector)))
            found |= dict.fromkeys(near.of(frame.embedding.vector, limits.by_embedding) if near else ())
        return list(found)


def _kind(keypoints: Keypoints) -> tuple[str, int]:
    return keypoints.model, keypoints.descriptors.shape[1]


class _VectorIndex:
    def __init__(self, pictures: Sequence[AssetFeatures], places: list[int]) -> None:
        self._places = places
        known = [pictures[place].embedding for place in places]
        self._index = Neighbours(np.array([each.vector for each in known if each is not None], np.float32))

    def of(self, vector: NDArray[np.float32], count: int) -> list[int]:
        found = self._index.nearest(vector[None], count).places[0]
        return [self._places[at] for at in found if at >= 0]


class _VoteIndex:
    def __init__(self, pictures: Sequence[AssetFeatures], places: list[int]) -> None:
        known = [pictures[place].keypoints for place in places]
        kept = [each.strongest(INDEXED_MAX) for each in known if each is not None]
        self._places = places
        self._owners = np.repeat(np.arange(len(kept)), [len(each) for each in kept])
        self._points = np.concatenate([each.points for each in kept])
        self._index = Neighbours(np.concatenate([_numbers(each) for each in kept]))

    def of(self, keypoints: Keypoints, count: int) -> list[int]:
        votes = self._counted(keypoints)
        # Stable, so that of equal ones the same is chosen in every run.
        order = np.argsort(-votes, kind="stable")[:count]
        return [self._places[at] for at in order if votes[at] > 0]

    def _counted(self, keypoints: Keypoints) -> NDArray[np.float64]:
        nearest = self._index.nearest(_numbers(keypoints), NEIGHBOURS, LISTS)
        near, at = nearest.distances, nearest.places
        known = at >= 0
        last = np.where(known, near, 0).max(axis=1, keepdims=True)
        weights = np.square(np.clip(1 - near / np.maximum(last, 1e-9), 0, 1))
        turn = (keypoints.points[:, None, 3] - self._points[at, 3]) % 360 / 360 * TURNS
        grown = np.log2(np.maximum(keypoints.points[:, None, 2], 1e-3) / np.maximum(self._points[at, 2], 1e-3))
        size = np.clip(np.floor(grown + SIZES / 2), 0, SIZES - 1).astype(np.int64)
        low = np.floor(turn).astype(np.int64)
        after = turn - low
        pictures = int(self._owners[-1]) + 1
        cells = np.zeros(pictures * TURNS * SIZES)
        # Each vote is divided between two turns, or a thing turned by half a step would lose half of its votes.
        for step, share in ((0, 1 - after), (1, after)):
            cell = (self._owners[at] * TURNS + (low + step) % TURNS) * SIZES + size
            cells += np.bincount(cell[known], (weights * share)[known], len(cells))
        by_cell = cells.reshape(pictures, TURNS, SIZES)
        together = by_cell[:, :, :-1] + by_cell[:, :, 1:]
        best: NDArray[np.float64] = together.reshape(pictures, -1).max(axis=1)
        return best


def _numbers(keypoints: Keypoints) -> NDArray[np.float32] | NDArray[np.uint8]:
    """Descriptors whose squared distance is what they differ by; bits become a number each."""
    return np.unpackbits(keypoints.descriptors, axis=1) if keypoints.are_bits else keypoints.descriptors
