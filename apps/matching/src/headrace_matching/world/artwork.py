"""Pictures of products that do not exist: printed fronts of boxes, bottles and bags, drawn from a seed.

A front is what a shop's picture of a product mostly shows: a shape of one colour family, a pattern, a brand in large
letters, ornaments, small print and a bar code. Products of one brand share colours, pattern and the brand's name, as
they do on a shelf, so that telling them apart takes more than a colour and a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""Height × width × 3, in OpenCV's order of colours: blue, green, red."""
FRONT_SIDE = 360
SMOOTH = cv2.LINE_AA
_SYLLABLES = (
    "ka",
    "lo",
    "mi",
    "ra",
    "ten",
    "vo",
    "su",
    "be",
    "nar",
    "qui",
    "dol",
    "fa",
    "zen",
    "pu",
    "tri",
    "mo",
    "sha",
)
_KINDS = (
    "DARK",
    "LIGHT",
    "ORIGINAL",
    "FRESH",
    "MILD",
    "STRONG",
    "SOFT",
    "PURE",
    "ULTRA",
    "ZERO",
    "EXTRA",
    "MINI",
    "MAX",
)
_FONTS = (cv2.FONT_HERSHEY_DUPLEX, cv2.FONT_HERSHEY_TRIPLEX, cv2.FONT_HERSHEY_COMPLEX, cv2.FONT_HERSHEY_SCRIPT_COMPLEX)


@dataclass(frozen=True, slots=True)
class Front:
    """What is printed, and where the product is (0 or 255) in the square that holds it."""

    pixels: Pixels
    mask: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Brand:
    """What the products of one maker share."""

    name: str
    palette: tuple[tuple[int, int, int], ...]
    pattern: int
    font: int


def brand(seed: int) -> Brand:
    """The brand of a seed."""
    chance = np.random.default_rng([seed, 11])
    hue = int(chance.integers(0, 180))
    colours = [
        (hue, int(chance.integers(90, 255)), int(chance.integers(70, 235))),
        ((hue + int(chance.integers(15, 70))) % 180, int(chance.integers(60, 255)), int(chance.integers(60, 255))),
        ((hue + 90) % 180, int(chance.integers(120, 255)), int(chance.integers(40, 200))),
        (0, 0, int(chance.choice([15, 245]))),
    ]
    palette = tuple(_bgr(each) for each in colours)
    return Brand(_word(chance, 2).upper(), palette, int(chance.integers(4)), int(chance.choice(_FONTS)))


def front(maker: Brand, seed: int) -> Front:
    """The front of one product of a brand: its ornaments, its kind and its small print are its own."""
    chance = np.random.default_rng([seed, 12])
    side = FRONT_SIDE
    pixels: Pixels = np.empty((side, side, 3), np.uint8)
    pixels[:] = maker.palette[0]
    _pattern(pixels, maker, chance)
    for _ in range(int(chance.integers(6, 11))):
        _ornament(pixels, maker, chance)
    top = int(chance.integers(70, 130))
    _text(pixels, maker.name, (int(chance.integers(30, 60)), top), 1.9, maker)
    _text(pixels, str(chance.choice(_KINDS)), (int(chance.integers(40, 110)), top + 60), 1.2, maker)
    for line in range(int(chance.integers(2, 5))):
        words = " ".join(_word(chance, 3) for _ in range(3))
        _text(pixels, words, (45, 240 + 22 * line), 0.55, maker)
    _bar_code(pixels, chance)
    return Front(pixels, _silhouette(chance))


def _bgr(hsv: tuple[int, int, int]) -> tuple[int, int, int]:
    blue, green, red = cv2.cvtColor(np.array([[hsv]], np.uint8), cv2.COLOR_HSV2BGR)[0, 0]
    return int(blue), int(green), int(red)


def _word(chance: np.random.Generator, syllables: int) -> str:
    return "".join(chance.choice(_SYLLABLES, syllables))


def _text(pixels: Pixels, text: str, place: tuple[int, int], size: float, maker: Brand) -> None:
    thickness = max(1, round(size * 2))
    cv2.putText(pixels, text, place, maker.font, size, maker.palette[2], thickness + 3, SMOOTH)
    cv2.putText(pixels, text, place, maker.font, size, maker.palette[3], thickness, SMOOTH)


def _pattern(pixels: Pixels, maker: Brand, chance: np.random.Generator) -> None:
    side, step, colour = FRONT_SIDE, int(chance.integers(22, 48)), maker.palette[1]
    for place in range(0, 2 * side, step):
        if maker.pattern == 0:
            cv2.line(pixels, (place, 0), (place - side, side), colour, 5, SMOOTH)
        elif maker.pattern == 1:
            cv2.line(pixels, (0, place), (side, place), colour, step // 3)
        elif maker.pattern == 2:
            for across in range(0, side, step):
                cv2.circle(pixels, (across + (place // step % 2) * step // 2, place), step // 5, colour, -1, SMOOTH)
        else:
            cv2.circle(pixels, (side // 2, side), place, colour, 4, SMOOTH)


def _ornament(pixels: Pixels, maker: Brand, chance: np.random.Generator) -> None:
    colour: Any = maker.palette[int(chance.integers(1, 4))]
    at = chance.integers(40, FRONT_SIDE - 40, 2)
    size = int(chance.integers(14, 60))
    kind = int(chance.integers(4))
    if kind == 0:
        corners = at + chance.integers(-size, size, (int(chance.integers(3, 8)), 2))
        cv2.fillPoly(pixels, [corners.astype(np.int32)], colour, SMOOTH)
    elif kind == 1:
        axes = (size, int(chance.integers(8, size + 8)))
        turn = int(chance.integers(180))
        cv2.ellipse(pixels, at.tolist(), axes, turn, 0, int(chance.integers(150, 360)), colour, -1, SMOOTH)
    elif kind == 2:
        points = chance.integers(3, 7)
        angles = np.linspace(0, 2 * np.pi, 2 * int(points), endpoint=False) + chance.uniform(0, 2)
        radii = np.tile([size, size * 0.45], int(points))
        star = at + np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
        cv2.fillPoly(pixels, [star.astype(np.int32)], colour, SMOOTH)
    else:
        corners = at + np.cumsum(chance.integers(-size, size, (6, 2)), axis=0)
        cv2.polylines(pixels, [corners.astype(np.int32)], False, colour, int(chance.integers(3, 9)), SMOOTH)


def _bar_code(pixels: Pixels, chance: np.random.Generator) -> None:
    left, top = int(chance.integers(210, 250)), int(chance.integers(270, 300))
    pixels[top : top + 36, left : left + 80] = 250
    for place in range(left + 4, left + 74, 3):
        pixels[top + 3 : top + 33, place : place + int(chance.integers(0, 4))] = 20


def _silhouette(chance: np.random.Generator) -> NDArray[np.uint8]:
    """A box, a bottle or a bag; it leaves a margin, as pictures of shops do."""
    side, mask = FRONT_SIDE, np.zeros((FRONT_SIDE, FRONT_SIDE), np.uint8)
    kind, inset = int(chance.integers(3)), int(chance.integers(12, 40))
    if kind == 0:
        cv2.rectangle(mask, (inset, 14), (side - inset, side - 14), 255, -1)
    elif kind == 1:
        cv2.rectangle(mask, (inset, 70), (side - inset, side - 10), 255, -1)
        neck = side // 2
        cv2.rectangle(mask, (neck - 70, 8), (neck + 70, 90), 255, -1)
    else:
        cv2.ellipse(mask, (side // 2, side // 2), (side // 2 - inset, side // 2 - 10), 0, 0, 360, 255, -1)
        cv2.rectangle(mask, (inset + 10, side // 2), (side - inset - 10, side - 10), 255, -1)
    return mask
