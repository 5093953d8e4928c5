"""Keyframes: one per scene, with its time; and videos that are broken, or made to cost."""

from __future__ import annotations

import re
from pathlib import Path

import cv2
import matching_hostile_files as files
import numpy as np
import pytest
from test_matching_pictures import PEAK_MB_MAX, SECONDS_MAX, looked_at

from headrace_matching.vision.assets import BadAsset
from headrace_matching.vision.keyframes import Keyframe, VideoLimits, keyframes
from headrace_matching.vision.pictures import read

RATE = 10


def video(path: Path, scenes: int, scene_s: float = 1.5, codec: str = "") -> Path:
    """A video of still scenes, each of other patches."""
    codec = codec or {".avi": "MJPG", ".mp4": "mp4v", ".webm": "VP80"}[path.suffix]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), RATE, (320, 192))
    for scene in range(scenes):
        for _ in range(round(scene_s * RATE)):
            writer.write(np.asarray(files.noise(320, 192, scene)))
    writer.release()
    return path


def readable(path: Path, limits: VideoLimits | None = None) -> tuple[list[Keyframe], str]:
    """What was handed out, and the reason why it ended early."""
    found = []
    try:
        for each in keyframes(path, limits):
            found.append(each)
    except BadAsset as error:
        return found, error.reason
    return found, ""


@pytest.mark.parametrize("suffix", [".avi", ".mp4", ".webm"])
def test_each_scene_gives_one_frame_with_its_time(tmp_path: Path, suffix: str) -> None:
    found, reason = readable(video(tmp_path / f"a{suffix}", 4))
    assert reason == ""
    assert [int(each.time_s // 1.5) for each in found] == [0, 1, 2, 3]
    for scene, each in enumerate(found):
        picture = read(each.jpeg)
        shown = np.asarray(files.noise(320, 192, scene), np.int16)[:, :, ::-1]
        assert (picture.width, picture.height) == (320, 192)
        # The writer was given red for blue, and so was this comparison: what is compared is that it is that scene.
        assert np.abs(picture.pixels[:, :, ::-1] - shown).mean() < 30


def test_a_long_scene_gives_a_frame_every_two_seconds(tmp_path: Path) -> None:
    found, _ = readable(video(tmp_path / "a.avi", 1, 7.0))
    assert len(found) == 4


def test_of_a_scene_the_sharpest_frame_is_taken(tmp_path: Path) -> None:
    sharp = np.asarray(files.noise(320, 192))
    path = tmp_path / "a.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 5, (320, 192))
    for blur in (4.0, 3.0, 0.0, 2.0, 5.0):
        writer.write(cv2.GaussianBlur(sharp, (0, 0), blur) if blur else sharp)
    writer.release()
    (found,) = keyframes(path)
    assert found.time_s == pytest.approx(0.4)


def test_a_large_frame_is_kept_small(tmp_path: Path) -> None:
    (found,) = keyframes(video(tmp_path / "a.avi", 1), VideoLimits(side_kept=160))
    assert read(found.jpeg).width == 160


@pytest.mark.parametrize("share", [0.45, 0.7, 0.97])
def test_a_truncated_video_is_refused_after_what_could_be_read(tmp_path: Path, share: float) -> None:
    whole = video(tmp_path / "a.avi", 4)
    cut = tmp_path / "cut.avi"
    cut.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * share)])
    found, reason = readable(cut)
    assert reason.startswith("truncated: ")
    assert len(found) == {0.45: 2, 0.7: 3, 0.97: 4}[share]


def test_a_truncated_webm_is_known_by_its_missing_time(tmp_path: Path) -> None:
    whole = video(tmp_path / "a.webm", 4)
    cut = tmp_path / "cut.webm"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    found, reason = readable(cut)
    assert reason.startswith("truncated: it ends after")
    assert 0 < len(found) < 4


def test_the_size_is_judged_before_a_frame_is_asked_for(tmp_path: Path) -> None:
    path = video(tmp_path / "a.avi", 1)
    assert readable(path, VideoLimits(pixels_max=61_439)) == (
        [],
        "too large: 320 × 192 pixels, at most 61,439 together",
    )
    assert readable(path, VideoLimits(bytes_max=1_000))[1].startswith("too large: ")
    assert readable(tmp_path / "nowhere.avi") == ([], "unreadable: No such file or directory")


def test_a_video_that_never_ends_is_ended(tmp_path: Path) -> None:
    path = video(tmp_path / "a.avi", 4)
    found, reason = readable(path, VideoLimits(duration_s_max=2.0))
    assert (len(found), reason) == (1, "too long: it did not end after 2 s of video")
    found, reason = readable(path, VideoLimits(keyframes_max=2))
    assert (len(found), reason) == (2, "too long: it has more than 2 keyframes")
    moments = iter(range(1_000))
    with pytest.raises(BadAsset, match="too long: it did not end after"):
        list(keyframes(path, VideoLimits(work_s_max=5.0), clock=lambda: float(next(moments))))


def hostile(folder: Path, whole: dict[str, bytes]) -> dict[str, str]:
    """Files that are no videos, or broken ones, and how the reason of each begins."""
    mp4, avi = whole[".mp4"], whole[".avi"]
    playlist = b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/hostname\n"
    cases = {
        "empty.mp4": (b"", "empty"),
        "page.mp4": (b"<!doctype html><html></html>", "not a video"),
        "playlist.mp4": (playlist, "not a video"),
        "archive.mp4": (files.archive(), "not a video"),
        "picture.avi": (files.packed(files.noise(320, 192), "PNG"), "not a video"),
        "cut.mp4": (mp4[: len(mp4) // 2], "truncated"),
        "only_a_type.mp4": (mp4[:28], "corrupt"),
        "wide.avi": (sized(avi, 15_900, 15_900), "corrupt"),
        "wider.avi": (sized(avi, 60_000, 60_000), "corrupt"),
        "nothing_inside.avi": (avi[:224] + bytes(len(avi) - 224), "corrupt"),
    }
    for name, (data, _) in cases.items():
        (folder / name).write_bytes(data)
    return {name: reason for name, (_, reason) in cases.items()}


def sized(avi: bytes, width: int, height: int) -> bytes:
    """A motion-JPEG AVI whose frames declare another size."""
    wide = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return re.sub(rb"(\xff\xc0\x00\x11\x08)....", lambda found: found[1] + wide, avi, flags=re.DOTALL)


def test_each_hostile_video_ends_within_bounds(tmp_path: Path) -> None:
    whole = {suffix: video(tmp_path / f"a{suffix}", 2).read_bytes() for suffix in (".mp4", ".avi", ".webm")}
    folder = tmp_path / "videos"
    folder.mkdir()
    expected = hostile(folder, whole)
    chance = np.random.default_rng(3)
    for number in range(24):
        suffix, data = list(whole.items())[number % 3]
        damaged = bytearray(data)
        for place in chance.integers(0, len(data) if number % 2 else 600, 8):
            damaged[place] = int(chance.integers(256))
        (folder / f"damaged_{number}{suffix}").write_bytes(bytes(damaged))
    found = looked_at(folder)
    assert {name: found[name].get("reason", "read")[: len(why)] for name, why in expected.items()} == expected
    assert len(found) == len(expected) + 24
    assert all(each["keyframes"] or each.get("reason") for each in found.values())
    assert max(each["peak_mb"] for each in found.values()) < PEAK_MB_MAX
    assert {name: each["seconds"] for name, each in found.items() if each["seconds"] > SECONDS_MAX} == {}
