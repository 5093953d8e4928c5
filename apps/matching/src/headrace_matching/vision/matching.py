"""Products are found in videos: of each frame the likeliest pictures, and of these the ones that are verified.

Pictures of products are held in blocks, frames pass by one after another. So memory holds a block of pictures, its
index and a few frames, whatever the sizes of both sides; with more pictures than a block the frames pass once per
block. What was found is kept: one match per product and video, that of its best pair of picture and frame.

A caller that wants to stop, or to be told how far it is, does so in the iterator of frames that it gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from headrace.errors import CallerError
from headrace_matching.vision.candidates import CandidateIndex, CandidateLimits
from headrace_matching.vision.features import AssetFeatures
from headrace_matching.vision.verification import Verification, verify

FRAMES_PER_LANE = 4
"""Frames that are in memory per lane: enough that no lane waits for another."""

WEAKER_SHARE = 0.7
"""Of the points of a better product at the same spot: with fewer a product is taken for one of the same brand."""


@dataclass(frozen=True, slots=True)
class MatchOptions:
    """What counts as a match, and what may be spent on finding it."""

    score_min: float = 0.5
    """Scores are probabilities: above this a match is likelier right than wrong."""
    candidates: CandidateLimits = field(default_factory=CandidateLimits)
    block_max: int = 4_000
    """Pictures of products that are in memory at once: about 150 KB each."""
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class BestPair:
    """The picture and the frame in which a product is seen best."""

    img_id: str
    frame_id: str
    score_pair: float


@dataclass(frozen=True, slots=True)
class Match:
    """A product that is seen in a video."""

    product_id: str
    video_id: str
    score: float
    best_pair: BestPair


def match(
    products: Iterable[AssetFeatures], frames: Iterable[AssetFeatures], options: MatchOptions | None = None
) -> Iterator[Match]:
    """Each product and video that belong together, once, in the order of their names. `frames` is iterated once per
    block of pictures, so with more than one block it must be something that can be iterated again."""
    options = options or MatchOptions()
    best: dict[tuple[str, str], Match] = {}
    pictures = iter(products)
    once = iter(frames) is frames
    for number, block in enumerate(iter(lambda: list(islice(pictures, options.block_max)), [])):
        if number and once:
            raise CallerError(
                f"there are more than {options.block_max} pictures and the frames can be read only once",
                "give frames that can be iterated again, or a larger block_max",
            )
        for found in _in_block(block, frames, options):
            key = (found.product_id, found.video_id)
            if key not in best or found.score > best[key].score:
                best[key] = found
    for key in sorted(best):
        yield best[key]


def _in_block(block: list[AssetFeatures], frames: Iterable[AssetFeatures], options: MatchOptions) -> Iterator[Match]:
    index, passing = CandidateIndex(block), iter(frames)

    def seen(frame: AssetFeatures) -> list[Match]:
        likely = (block[place] for place in index.of(frame, options.candidates))
        return [
            Match(each.owner_id, frame.owner_id, found.score, BestPair(each.asset_id, frame.asset_id, found.score))
            for each, found in _apart(_verified(likely, frame, options.score_min))
        ]

    with ThreadPoolExecutor(options.lanes) as lanes:
        while some := list(islice(passing, options.lanes * FRAMES_PER_LANE)):
            for found in lanes.map(seen, some):
                yield from found


_Seen = tuple[AssetFeatures, Verification]


def _verified(pictures: Iterable[AssetFeatures], frame: AssetFeatures, score_min: float) -> list[_Seen]:
    if frame.keypoints is None:
        return []
    judged = ((each, verify(each.keypoints, frame.keypoints)) for each in pictures if each.keypoints is not None)
    return [(each, found) for each, found in judged if found.score >= score_min]


def _apart(seen: list[_Seen]) -> Iterator[_Seen]:
    """Without those that only have in common with a better one what its brand has: they rest on the same points of the
    frame, and on clearly fewer of them. The same thing twice in the catalogue is as good twice, and stays."""
    better: list[set[int]] = []
    for each, found in sorted(seen, key=lambda one: -one[1].inliers):
        points = set(found.pairs[:, 1].tolist())
        shared = (len(points & taken) > len(points) / 2 for taken in better if len(points) < WEAKER_SHARE * len(taken))
        if not any(shared):
            better.append(points)
            yield each, found
