"""Pictures from outside: each is read properly or refused with a reason, in bounded time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matching_hostile_files as files
import numpy as np
import pytest
from PIL import Image

from headrace_matching.vision.assets import BadAsset
from headrace_matching.vision.pictures import PictureLimits, read

CHILD = Path(__file__).with_name("matching_reading_child.py")
PEAK_MB_MAX = 700
"""The limits allow 40 million pixels: four bytes each and a copy, and what Python and the libraries take anyway."""
SECONDS_MAX = 10.0
"""Of processor time for one file. None takes more than two on an idle machine."""


def looked_at(folder: Path) -> dict[str, dict[str, Any]]:
    done = subprocess.run([sys.executable, CHILD, folder], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return {each["name"]: each for each in told}


def test_each_hostile_file_ends_within_bounds(tmp_path: Path) -> None:
    good, bad = list(files.good()), list(files.bad())
    for name, data, _ in (*good, *bad):
        (tmp_path / name).write_bytes(data)
    found = looked_at(tmp_path)
    assert {name: found[name].get("size", found[name].get("reason")) for name, _, _ in good} == {
        name: list(size) for name, _, size in good
    }
    assert {name: found[name].get("reason", "read")[: len(why)] for name, _, why in bad} == {
        name: why for name, _, why in bad
    }
    assert max(each["peak_mb"] for each in found.values()) < PEAK_MB_MAX
    assert {name: each["seconds"] for name, each in found.items() if each["seconds"] > SECONDS_MAX} == {}


def test_a_reason_says_what_and_how_much() -> None:
    with pytest.raises(BadAsset, match="too large: 16,500 × 5,000 pixels, at most 16,000 each way") as caught:
        read(files.png_head(16_500, 5_000))
    assert not caught.value.heals
    assert caught.value.reason == str(caught.value)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (PictureLimits(bytes_max=100), "too large: .* bytes, at most 100"),
        (PictureLimits(pixels_max=1_000), "too large: 320 × 240 pixels, at most 1,000 together"),
        (PictureLimits(side_max=300), "too large: 320 × 240 pixels, at most 300 each way"),
        (PictureLimits(side_min=241), "too small: 320 × 240 pixels, at least 241 each way"),
    ],
)
def test_each_limit_is_kept(limits: PictureLimits, reason: str) -> None:
    data = files.packed(files.noise(320, 240), "PNG")
    assert read(data).width == 320
    with pytest.raises(BadAsset, match=reason):
        read(data, limits)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_stands_upright_however_the_camera_was_held(orientation: int) -> None:
    shown = files.noise(160, 96)
    turn = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    stored = shown if turn is None else shown.transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = read(files.packed(stored, "PNG", exif=exif))
    assert (picture.width, picture.height) == (160, 96)
    assert np.array_equal(picture.pixels[:, :, ::-1], np.asarray(shown))


def test_what_is_transparent_becomes_white_and_what_is_deep_is_scaled() -> None:
    clear = read(files.packed(Image.new("RGBA", (32, 32), (10, 200, 30, 0)), "PNG"))
    assert clear.pixels.min() == 255
    deep = Image.fromarray(np.full((32, 32), 0x8000, np.uint16))
    assert np.unique(read(files.packed(deep, "PNG")).pixels).tolist() == [128]


def test_cmyk_keeps_its_colours() -> None:
    red = Image.new("RGB", (64, 64), (220, 30, 40))
    blue, green, lit = read(files.packed(red.convert("CMYK"), "JPEG", quality=95)).pixels[32, 32].tolist()
    assert lit > 200
    assert max(blue, green) < 80


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_large_picture_is_kept_small_and_knows_its_scale(kind: str) -> None:
    picture = read(files.packed(files.noise(3_000, 1_500), kind))
    assert picture.pixels.shape == (320, 640, 3)
    assert (picture.width, picture.height, picture.scale) == (3_000, 1_500, 3_000 / 640)
    assert picture.pixels.flags.c_contiguous


def test_damaged_bytes_are_read_or_refused_and_nothing_else() -> None:
    """What a decoder stumbles over is no error of this program."""
    chance = np.random.default_rng(7)
    whole = [files.packed(files.noise(48, 48), kind) for kind in ("JPEG", "PNG", "GIF", "WEBP", "BMP")]
    outcomes = {"read": 0, "refused": 0}
    for _ in range(150):
        data = bytearray(whole[int(chance.integers(len(whole)))])
        for _ in range(int(chance.integers(1, 6))):
            data[int(chance.integers(len(data)))] = int(chance.integers(256))
        try:
            read(bytes(data))
        except BadAsset:
            outcomes["refused"] += 1
        else:
            outcomes["read"] += 1
    assert min(outcomes.values()) > 20
