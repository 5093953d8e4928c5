"""Features of a world for the benches of matching: drawn, packed as JPEG, read, embedded and described as workers do.

They can be kept in a folder, since those of thousands of assets take minutes.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

import cv2

from headrace_matching.vision.embedding import ClassicEmbedder
from headrace_matching.vision.features import AssetFeatures, Embedding
from headrace_matching.vision.keypoints import SiftFinder
from headrace_matching.vision.pictures import read
from headrace_matching.world.artwork import Pixels
from headrace_matching.world.plan import SCENE_S, WorldPlan

Done = TypeVar("Done")
Drawn = Iterator[tuple[str, str, Pixels]]
"""Names of an asset and of its product or video, and its pixels."""


@dataclass(slots=True)
class Spent:
    """Processor seconds by step, and how many assets they were for."""

    seconds: dict[str, float] = field(default_factory=dict)
    assets: dict[str, int] = field(default_factory=dict)

    def timed(self, step: str, work: Callable[[], Done]) -> Done:
        begun = time.thread_time()
        done = work()
        self.seconds[step] = self.seconds.get(step, 0.0) + time.thread_time() - begun
        self.assets[step] = self.assets.get(step, 0) + 1
        return done


def product_pictures(catalogue: WorldPlan, each_max: int = 2) -> Drawn:
    """Pictures of all products, at most so many of each."""
    for number in range(catalogue.products):
        for count, pixels in enumerate(islice(catalogue.pictures(number), each_max)):
            yield f"img-{number}-{count}", catalogue.product_id(number), pixels


def scene_frames(catalogue: WorldPlan) -> Drawn:
    """A frame from the middle of each scene of all videos."""
    for video in range(catalogue.videos):
        for count, scene in enumerate(catalogue.scenes(video)):
            yield f"frame-{video}-{count}", catalogue.video_id(video), scene.frame(SCENE_S / 2)


def jpeg(pixels: Pixels) -> bytes:
    _, packed = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, 85])
    return packed.tobytes()


def described(drawn: Drawn, spent: Spent) -> Iterator[AssetFeatures]:
    """What the workers make of assets."""
    embedder, finder = ClassicEmbedder(), SiftFinder()
    for asset_id, owner_id, pixels in drawn:
        data = jpeg(pixels)
        picture = spent.timed("read", lambda data=data: read(data))
        vector = spent.timed("embed", lambda picture=picture: embedder.embed([picture])[0])
        keypoints = spent.timed("keypoints", lambda picture=picture: finder.find(picture))
        yield AssetFeatures(asset_id, owner_id, Embedding(embedder.model, vector), keypoints)


def kept(folder: Path | None, name: str, drawn: Drawn, count: int, spent: Spent) -> list[AssetFeatures]:
    """The first `count` of these; a folder keeps them for the next time."""
    path = folder / f"{name}-{count}.pickle" if folder else None
    if path and path.exists():
        # Written by this bench itself, for whoever runs it again.
        found: list[AssetFeatures] = pickle.loads(path.read_bytes())  # noqa: S301
        return found
    found = list(described(islice(drawn, count), spent))
    if path:
        path.write_bytes(pickle.dumps(found))
    return found
