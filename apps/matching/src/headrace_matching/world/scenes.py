"""Frames of videos: a room, things that stand about, and now and then a product of the catalogue.

What a camera and a codec do to a product is a homography (distance, turn, slant), light, blur, noise, an edge of the
frame or a thing in front of it. `Strain` says how much of each a difficulty has.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from headrace_matching.world.artwork import FRONT_SIDE, Front, Pixels

WIDTH, HEIGHT = 640, 360


@dataclass(frozen=True, slots=True)
class Strain:
    """How far a product in a frame is from its picture in the catalogue."""

    size: tuple[float, float]
    """Its height by that of the frame, least and most."""
    turn: float
    """Most degrees, either way."""
    slant: float
    """How far a corner moves by perspective, as a share of the side."""
    cut: float
    """How much may lie outside of the frame or behind a thing."""
    light: float
    """How far gain, gamma and the balance of colours may go."""
    blur: float
    """Radius of what a moving camera does."""
    noise: float
    clutter: int
    """Things that stand about."""
    lookalikes: float
    """How often such a thing is of a brand of the catalogue, but no product of it."""
    quality: int
    """Of the JPEG that the frame was before it came into the video."""


DIFFICULTIES = {
    1: Strain((0.6, 0.9), 8, 0.02, 0.05, 0.12, 0.0, 2, 2, 0.0, 90),
    2: Strain((0.42, 0.75), 40, 0.06, 0.2, 0.25, 0.8, 5, 4, 0.2, 65),
    3: Strain((0.3, 0.55), 180, 0.1, 0.35, 0.4, 1.4, 8, 6, 0.4, 40),
}


@dataclass(frozen=True, slots=True)
class Thing:
    """One object of a scene: what it looks like and where its corners are at the first moment."""

    front: Front
    corners: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Scene:
    """What is seen between two cuts. The last things stand in front."""

    room: Pixels
    things: tuple[Thing, ...]
    drift: tuple[float, float, float]
    """How the camera moves in a second: pixels to the right, pixels down, share by which it comes nearer."""
    gains: tuple[float, float, float]
    gamma: float
    strain: Strain
    seed: int

    def frame(self, after_s: float) -> Pixels:
        """What the camera sees so long after the cut."""
        across, down, nearer = (value * after_s for value in self.drift)
        zoom = 1.0 + nearer
        centre = np.array([WIDTH / 2, HEIGHT / 2], np.float32)
        seen = self.room.copy()
        for thing in self.things:
            moved = (thing.corners - centre) * zoom + centre + np.array([across, down], np.float32)
            _place(seen, thing.front, moved.astype(np.float32))
        return _taken(seen, self, round(after_s * 1000))


def scene(product: Front | None, others: list[Front], strain: Strain, seed: int) -> Scene:
    """A scene with or without a product, among others."""
    chance = np.random.default_rng([seed, 21])
    things = [Thing(each, _corners(chance, strain, anywhere=True)) for each in others]
    if product is not None:
        things.append(Thing(product, _corners(chance, strain, anywhere=False)))
        if chance.random() < strain.cut:
            things.append(_hand(chance, things[-1], strain))
    spread = strain.light
    gains = tuple(
        float(each) for each in np.exp(chance.uniform(-spread, spread) + chance.uniform(-0.3, 0.3, 3) * spread)
    )
    drift = (float(chance.uniform(-8, 8)), float(chance.uniform(-5, 5)), float(chance.uniform(-0.03, 0.03)))
    return Scene(
        room(chance),
        tuple(things),
        drift,
        (gains[0], gains[1], gains[2]),
        float(np.exp(chance.uniform(-spread, spread))),
        strain,
        seed,
    )


def room(chance: np.random.Generator) -> Pixels:
    """A background: smooth light, some furniture, texture."""
    corners = chance.integers(30, 225, (3, 4, 3)).astype(np.uint8)
    wall = cv2.resize(corners, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    for _ in range(int(chance.integers(3, 9))):
        left, top = int(chance.integers(-50, WIDTH)), int(chance.integers(-50, HEIGHT))
        size = chance.integers(30, 260, 2)
        colour = tuple(int(each) for each in chance.integers(20, 235, 3))
        cv2.rectangle(wall, (left, top), (left + int(size[0]), top + int(size[1])), colour, int(chance.choice([-1, 3])))
    grain = cv2.resize(chance.integers(-18, 18, (HEIGHT // 4, WIDTH // 4)).astype(np.float32), (WIDTH, HEIGHT))
    return np.asarray(np.clip(wall + grain[:, :, None], 0, 255), np.uint8)


def _corners(chance: np.random.Generator, strain: Strain, *, anywhere: bool) -> NDArray[np.float32]:
    side = HEIGHT * chance.uniform(*strain.size)
    turn = np.radians(chance.uniform(-strain.turn, strain.turn))
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * side / 2
    turned = square @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    slanted = turned + chance.uniform(-strain.slant, strain.slant, (4, 2)) * side
    # A thing may stand anywhere; of a product at most the share `cut` lies outside.
    half = 0.0 if anywhere else side * (0.5 - strain.cut)
    at = [
        chance.uniform(min(half, WIDTH / 2), max(WIDTH - half, WIDTH / 2)),
        chance.uniform(min(half, HEIGHT / 2), max(HEIGHT - half, HEIGHT / 2)),
    ]
    return np.asarray(slanted + at, np.float32)


def _hand(chance: np.random.Generator, behind: Thing, strain: Strain) -> Thing:
    """Something plain that covers a part of what is behind."""
    pixels = np.full((FRONT_SIDE, FRONT_SIDE, 3), chance.integers(60, 220, 3), np.uint8)
    mask = np.zeros((FRONT_SIDE, FRONT_SIDE), np.uint8)
    cv2.ellipse(mask, (FRONT_SIDE // 2, FRONT_SIDE // 2), (170, 110), int(chance.integers(180)), 0, 360, 255, -1)
    covered = float(np.sqrt(strain.cut))
    corner = behind.corners[int(chance.integers(4))]
    shrunk = (behind.corners - behind.corners.mean(axis=0)) * covered + corner
    return Thing(Front(pixels, mask), shrunk.astype(np.float32))


def _place(seen: Pixels, front: Front, corners: NDArray[np.float32]) -> None:
    side = float(FRONT_SIDE)
    square = np.array([[0, 0], [side, 0], [side, side], [0, side]], np.float32)
    warp = cv2.getPerspectiveTransform(square, corners)
    # Only the box around it is drawn; averaging first is what a lens does with detail that is too fine.
    low = np.clip(np.floor(corners.min(axis=0)).astype(int), 0, [WIDTH, HEIGHT])
    high = np.clip(np.ceil(corners.max(axis=0)).astype(int), 0, [WIDTH, HEIGHT])
    if (high - low).min() < 2:
        return
    shrink = max(1.0, side / max(1.0, float(np.linalg.norm(corners[0] - corners[1]))))
    softened = cv2.GaussianBlur(front.pixels, (0, 0), 0.45 * shrink) if shrink > 1.2 else front.pixels
    moved = np.array([[1, 0, -low[0]], [0, 1, -low[1]], [0, 0, 1]], np.float64) @ warp
    size = (int(high[0] - low[0]), int(high[1] - low[1]))
    pixels = cv2.warpPerspective(softened, moved, size, flags=cv2.INTER_LINEAR).astype(np.uint16)
    mask = cv2.warpPerspective(front.mask, moved, size, flags=cv2.INTER_LINEAR).astype(np.uint16)[:, :, None]
    under = seen[low[1] : high[1], low[0] : high[0]]
    under[:] = ((pixels * mask + under * (255 - mask)) // 255).astype(np.uint8)


def _taken(seen: Pixels, scene: Scene, moment: int) -> Pixels:
    """What light, a moving camera and an earlier codec make of it."""
    chance = np.random.default_rng([scene.seed, 22, moment])
    levels = np.arange(256) / 255.0
    table = np.stack([np.clip(255 * gain * levels**scene.gamma, 0, 255) for gain in scene.gains], axis=1)
    lit = cv2.LUT(seen, table.astype(np.uint8)[None])
    if scene.strain.blur:
        lit = cv2.GaussianBlur(lit, (0, 0), scene.strain.blur * chance.uniform(0.5, 1.0))
    grain = chance.standard_normal((HEIGHT, WIDTH, 1), np.float32) * np.float32(scene.strain.noise)
    noisy = cv2.convertScaleAbs(np.maximum(lit + grain, np.float32(0)))
    _, packed = cv2.imencode(".jpg", noisy, [cv2.IMWRITE_JPEG_QUALITY, scene.strain.quality])
    return np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR), np.uint8)
