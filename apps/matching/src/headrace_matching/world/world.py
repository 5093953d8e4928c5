"""A world on disk: pictures of products, videos in which some of them are seen, and the truth about it.

products/<product_id>/<n>.jpg      videos/<video_id>.mp4 or .avi      truth.json
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import cv2

from headrace.errors import CallerError, OperatorError
from headrace_matching.world.plan import SCENE_S, Appearance, WorldPlan
from headrace_matching.world.scenes import DIFFICULTIES, HEIGHT, WIDTH

FRAMES_PER_S = 5
PICTURE_QUALITY = 88
TRUTH = "truth.json"
AVI_EVERY = 4
"""Every so many videos one is a motion-JPEG AVI; the others are MPEG-4. Both codecs are in OpenCV's wheel."""


@dataclass(frozen=True, slots=True)
class PairQuality:
    """How right a list of found pairs is."""

    precision: float
    recall: float
    f1: float
    found: int
    true: int


@dataclass(frozen=True, slots=True)
class WorldTruth:
    """What is seen where in a world, and everything that is in it."""

    product_ids: tuple[str, ...]
    video_ids: tuple[str, ...]
    appearances: tuple[Appearance, ...]

    @property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Products and videos that belong together."""
        return frozenset((each.product_id, each.video_id) for each in self.appearances)

    def judge(self, found: Iterable[tuple[str, str]]) -> PairQuality:
        """Compare found pairs (product, video) with the true ones. Of nothing, nothing is wrong and nothing missed."""
        claimed, true = set(found), self.pairs
        right = len(claimed & true)
        precision = right / len(claimed) if claimed else 1.0
        recall = right / len(true) if true else 1.0
        both = precision + recall
        return PairQuality(precision, recall, 2 * precision * recall / both if both else 0.0, len(claimed), len(true))


def make(folder: Path, catalogue: WorldPlan) -> WorldTruth:
    """Draw a world into a folder. The same catalogue gives the same pictures, videos and truth."""
    if catalogue.difficulty not in DIFFICULTIES:
        raise CallerError(f"there is no difficulty {catalogue.difficulty}", "1, 2 or 3")
    for number in range(catalogue.products):
        place = folder / "products" / catalogue.product_id(number)
        place.mkdir(parents=True, exist_ok=True)
        for count, pixels in enumerate(catalogue.pictures(number)):
            cv2.imwrite(str(place / f"{count}.jpg"), pixels, [cv2.IMWRITE_JPEG_QUALITY, PICTURE_QUALITY])
    (folder / "videos").mkdir(parents=True, exist_ok=True)
    for number in range(catalogue.videos):
        _video(folder / "videos", catalogue, number)
    truth = truth_of(catalogue)
    (folder / TRUTH).write_text(json.dumps(asdict(truth), indent=1), "utf-8")
    return truth


def truth_of(catalogue: WorldPlan) -> WorldTruth:
    """The truth about a world, which need not be drawn for it."""
    products = tuple(catalogue.product_id(number) for number in range(catalogue.products))
    videos = tuple(catalogue.video_id(number) for number in range(catalogue.videos))
    return WorldTruth(products, videos, tuple(catalogue.appearances()))


def read_truth(folder: Path) -> WorldTruth:
    """The truth that `make` wrote into a folder."""
    told = json.loads((folder / TRUTH).read_text("utf-8"))
    appearances = tuple(Appearance(**each) for each in told["appearances"])
    return WorldTruth(tuple(told["product_ids"]), tuple(told["video_ids"]), appearances)


def _video(folder: Path, catalogue: WorldPlan, number: int) -> None:
    suffix, codec = (".avi", "MJPG") if number % AVI_EVERY == AVI_EVERY - 1 else (".mp4", "mp4v")
    path = folder / f"{catalogue.video_id(number)}{suffix}"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), FRAMES_PER_S, (WIDTH, HEIGHT))
    if not writer.isOpened():
        raise OperatorError(f"OpenCV cannot write {codec} into {path.name}", "opencv-python-headless has this codec")
    try:
        for scene in catalogue.scenes(number):
            for frame in range(round(SCENE_S * FRAMES_PER_S)):
                writer.write(scene.frame(frame / FRAMES_PER_S))
    finally:
        writer.release()
