"""Which products there are, which videos, and which product is seen where: all of it decided by a seed.

Nothing is drawn before it is asked for, so a world of thousands costs what is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from headrace_matching.world.artwork import FRONT_SIDE, Front, Pixels, brand, front
from headrace_matching.world.scenes import DIFFICULTIES, Scene, scene

SCENE_S = 2.0
SCENES_MIN, SCENES_MAX = 3, 5
SEEN_SHARE = 0.4
"""So many scenes show a product of the catalogue, if the world has matches at all."""
BRAND_SIZE = 3
"""Products that share a brand."""
PICTURE_SIDE = 480
# Seeds of brands and fronts that no catalogue has: what stands about in videos.
_FOREIGN = 1_000_000


@dataclass(frozen=True, slots=True)
class Appearance:
    """A product is seen in a video from one moment to another."""

    product_id: str
    video_id: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class WorldPlan:
    """A world before anything of it is drawn."""

    seed: int
    products: int
    videos: int
    difficulty: int
    matches: bool = True

    def product_id(self, number: int) -> str:
        return f"product-{number:05d}"

    def video_id(self, number: int) -> str:
        return f"video-{number:05d}"

    def pictures(self, number: int) -> Iterator[Pixels]:
        """Pictures of one product as a shop has them: from the front, and of some a second one, turned."""
        yield _shop_picture(self._front(number), 0, 250)
        if number % 4 == 0:
            yield _shop_picture(self._front(number), 25, 205)

    def seen(self, video: int) -> list[int | None]:
        """The product of each scene of a video, or none."""
        chance = np.random.default_rng([self.seed, 31, video])
        scenes = int(chance.integers(SCENES_MIN, SCENES_MAX + 1))
        if not self.matches or not self.products:
            return [None] * scenes
        return [int(chance.integers(self.products)) if chance.random() < SEEN_SHARE else None for _ in range(scenes)]

    def scenes(self, video: int) -> Iterator[Scene]:
        """The scenes of a video, one after another; each lasts `SCENE_S`."""
        strain = DIFFICULTIES[self.difficulty]
        for number, product in enumerate(self.seen(video)):
            chance = np.random.default_rng([self.seed, 32, video, number])
            others = [self._other(chance, strain.lookalikes) for _ in range(strain.clutter)]
            shown = None if product is None else self._front(product)
            yield scene(shown, others, strain, int(chance.integers(1 << 40)))

    def appearances(self) -> Iterator[Appearance]:
        """Everything that a perfect matcher would find."""
        for video in range(self.videos):
            for number, product in enumerate(self.seen(video)):
                if product is not None:
                    start = number * SCENE_S
                    yield Appearance(self.product_id(product), self.video_id(video), start, start + SCENE_S)

    def _front(self, product: int) -> Front:
        return _drawn(self._brand(product // BRAND_SIZE), self.seed * _FOREIGN + product)

    def _brand(self, number: int) -> int:
        return self.seed * _FOREIGN + number

    def _other(self, chance: np.random.Generator, lookalikes: float) -> Front:
        """A thing of a foreign brand, or one of a known brand that is not in the catalogue."""
        foreign = int(chance.integers(_FOREIGN // 2, _FOREIGN))
        known = chance.random() < lookalikes and self.products
        maker = int(chance.integers(self.products)) // BRAND_SIZE if known else foreign
        return _drawn(self._brand(maker), self.seed * _FOREIGN + foreign)


@lru_cache(maxsize=64)
def _drawn(maker: int, seed: int) -> Front:
    return front(brand(maker), seed)


def _shop_picture(drawn: Front, turn: float, backdrop: int) -> Pixels:
    side = PICTURE_SIDE
    scale = 0.92 * side / FRONT_SIDE
    warp = cv2.getRotationMatrix2D((FRONT_SIDE / 2, FRONT_SIDE / 2), turn, scale * (0.8 if turn else 1.0))
    warp[:, 2] += (side - FRONT_SIDE) // 2
    plain = (backdrop, backdrop, backdrop)
    # The product is cut out of its square first, or its surroundings would be seen at the edges.
    cut = np.where(drawn.mask[:, :, None] > 127, drawn.pixels, np.uint8(backdrop))
    turned = cv2.warpAffine(cut, warp, (side, side), flags=cv2.INTER_CUBIC, borderValue=plain)
    return np.asarray(turned, np.uint8)
