"""Small worlds and their features, made once per run of the tests."""

from __future__ import annotations

from functools import cache

import cv2

from headrace_matching.vision.embedding import ClassicEmbedder
from headrace_matching.vision.features import AssetFeatures, Embedding
from headrace_matching.vision.keypoints import SiftFinder
from headrace_matching.vision.matching import Match, match
from headrace_matching.vision.pictures import Picture, PictureLimits, read
from headrace_matching.world.artwork import Pixels
from headrace_matching.world.plan import WorldPlan

SEED = 36


def jpeg(pixels: Pixels, quality: int = 85) -> bytes:
    _, packed = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return packed.tobytes()


def picture(pixels: Pixels, side_kept: int = 400) -> Picture:
    """Smaller than usual, which halves the time of the tests and is enough for what is easy."""
    return read(jpeg(pixels), PictureLimits(side_kept=side_kept))


def features(asset_id: str, owner_id: str, seen: Picture) -> AssetFeatures:
    embedder = ClassicEmbedder()
    embedding = Embedding(embedder.model, embedder.embed([seen])[0])
    return AssetFeatures(asset_id, owner_id, embedding, SiftFinder().find(seen))


@cache
def small_world(difficulty: int, matches: bool = True) -> tuple[WorldPlan, list[AssetFeatures], list[AssetFeatures]]:
    """A few products and videos: pictures, and a frame of each scene."""
    # Where nothing is to be found, one video says as much as two.
    catalogue = WorldPlan(SEED, 4, 2 if matches else 1, difficulty, matches)
    side = 400 if difficulty == 1 or not matches else 640
    products = [
        features(f"img-{number}-{count}", catalogue.product_id(number), picture(pixels, side))
        for number in range(catalogue.products)
        for count, pixels in enumerate(catalogue.pictures(number))
    ]
    frames = [
        features(f"frame-{video}-{count}", catalogue.video_id(video), picture(scene.frame(0.8), side))
        for video in range(catalogue.videos)
        for count, scene in enumerate(catalogue.scenes(video))
    ]
    return catalogue, products, frames


@cache
def found_in(difficulty: int, matches: bool = True) -> tuple[Match, ...]:
    """What the matcher finds in a small world."""
    _, products, frames = small_world(difficulty, matches)
    return tuple(match(products, frames))
