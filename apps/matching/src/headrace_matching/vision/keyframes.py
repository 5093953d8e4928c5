"""The frames of a video that are worth looking at: one per scene, and more of a long one.

A scene ends where a frame differs much from the one before. Of each stretch the sharpest frame is taken, because a
cut and a moving camera blur. What is taken is handed out as it is found, so a long video is never in memory.

A video is as hostile as a picture, and its decoder is older and larger. So: only containers of the list (a playlist
would make FFmpeg open what it names), seen in the first bytes and not in the name; the declared size is compared with
the limits before a frame is asked for; frames, seconds of video and seconds of work have an end; and a video that ends
before it said so is reported after what could be read of it. FFmpeg runs in the calling thread and lets go of the
interpreter.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

import cv2
import numpy as np
from numpy.typing import NDArray

from headrace_matching.vision.assets import BadAsset
from headrace_matching.vision.threads import one_thread_each

CUT_LEVELS = 28.0
"""Mean difference of two small grey frames, of 255, at a cut: a moving camera stays below 15."""
SMALL = (32, 18)
MISSING_SHARE_MAX = 0.1
"""Of the declared time so much may be missing at the end: what a container declares is an estimate in some."""
BOXES_MAX = 10_000
OPEN_MS_MAX = READ_MS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class VideoLimits:
    """What a video may be, and what is taken from it."""

    bytes_max: int = 4 << 30
    pixels_max: int = 40_000_000
    duration_s_max: float = 4 * 3600.0
    work_s_max: float = 1800.0
    keyframes_max: int = 2_000
    every_s: float = 2.0
    """Of a scene that lasts longer, one frame per so many seconds."""
    samples_per_s: float = 5.0
    """Frames between these are skipped without being converted."""
    side_kept: int = 1280
    quality: int = 88


@dataclass(frozen=True, slots=True)
class Keyframe:
    """A frame as a JPEG, and its moment in the video."""

    time_s: float
    jpeg: bytes


def keyframes(
    path: Path, limits: VideoLimits | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Keyframe]:
    """The keyframes of a video file, first to last. Raises `BadAsset`; of a truncated one after what could be read."""
    limits = limits or VideoLimits()
    one_thread_each()
    _silence()
    missing = _missing_bytes(path, limits)
    video = cv2.VideoCapture(str(path.absolute()), cv2.CAP_FFMPEG, _OPTIONS)
    try:
        if not video.isOpened():
            raise BadAsset(
                _truncated(missing) if missing else "corrupt: no video stream of a known codec can be opened"
            )
        yield from _Reader(video, limits, clock).keyframes()
    except cv2.error as error:
        raise BadAsset(f"corrupt: {error.err or error}") from error
    finally:
        video.release()
    if missing:
        raise BadAsset(_truncated(missing))


_OPTIONS = [
    *(cv2.CAP_PROP_N_THREADS, 1),
    *(cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, OPEN_MS_MAX),
    *(cv2.CAP_PROP_READ_TIMEOUT_MSEC, READ_MS_MAX),
]


@cache
def _silence() -> None:
    """What is wrong with a video is told by `BadAsset`, once, and not line by line on the standard error output."""
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")


def _truncated(missing: int) -> str:
    return f"truncated: at least {missing:,} bytes are missing at its end"


def _missing_bytes(path: Path, limits: VideoLimits) -> int:
    """How many bytes fewer there are than the container says; a file that is not a video is refused."""
    try:
        size = path.stat().st_size
        if not size:
            raise BadAsset("empty: it has no bytes")
        if size > limits.bytes_max:
            raise BadAsset(f"too large: {size:,} bytes, at most {limits.bytes_max:,}")
        with path.open("rb") as file:
            return max(0, _declared_size(file, size) - size)
    except OSError as error:
        raise BadAsset(f"unreadable: {error.strerror}") from error


def _declared_size(file: BinaryIO, size: int) -> int:
    start = file.read(16)
    if start[:4] == b"RIFF" and start[8:12] == b"AVI ":
        # Of several gigabytes this is the size of the first part only.
        return int.from_bytes(start[4:8], "little") + 8
    if start[:4] == b"\x1aE\xdf\xa3":
        # Matroska and WebM may leave their size open; of them the time that is missing is seen at the end.
        return size
    if start[4:8] != b"ftyp":
        raise BadAsset("not a video: neither MP4, MOV, AVI, MKV nor WebM")
    return _end_of_boxes(file, size)


def _end_of_boxes(file: BinaryIO, size: int) -> int:
    """Where the last of the boxes of an MP4 ends, which follow one another."""
    place = 0
    for _ in range(BOXES_MAX):
        file.seek(place)
        head = file.read(16)
        length = int.from_bytes(head[:4], "big")
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if len(head) < 8 or length < 8:
            # Nothing follows, or a box that reaches to the end.
            break
        place += length
        if place >= size:
            break
    return place


class _Reader:
    """One passage through an opened video."""

    def __init__(self, video: cv2.VideoCapture, limits: VideoLimits, clock: Callable[[], float]) -> None:
        self._video, self._limits, self._clock = video, limits, clock
        self._until = clock() + limits.work_s_max
        width, height = video.get(cv2.CAP_PROP_FRAME_WIDTH), video.get(cv2.CAP_PROP_FRAME_HEIGHT)
        if not 0 < width * height <= limits.pixels_max:
            raise BadAsset(f"too large: {width:,.0f} × {height:,.0f} pixels, at most {limits.pixels_max:,} together")
        rate = video.get(cv2.CAP_PROP_FPS)
        self._rate = rate if np.isfinite(rate) and 0.1 <= rate <= 1000 else 25.0
        self._declared_s = video.get(cv2.CAP_PROP_FRAME_COUNT) / self._rate
        self._step = max(1, round(self._rate / limits.samples_per_s))
        self._moment = 0.0

    def keyframes(self) -> Iterator[Keyframe]:
        best: Keyframe | None = None
        sharpest, began, before, given = -1.0, 0.0, None, 0
        for moment, pixels in self._sampled():
            small = cv2.resize(cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY), SMALL, interpolation=cv2.INTER_AREA)
            cut = before is not None and float(cv2.absdiff(small, before).mean()) > CUT_LEVELS
            if best is not None and (cut or moment - began >= self._limits.every_s):
                yield best
                given += 1
                if given >= self._limits.keyframes_max:
                    raise BadAsset(f"too long: it has more than {given:,} keyframes")
                sharpest, began, best = -1.0, moment, None
            sharpness = _sharpness(pixels)
            if sharpness > sharpest:
                sharpest, best = sharpness, Keyframe(round(moment, 3), self._packed(pixels))
            before = small
        if best is not None:
            yield best
        self._check_end(best is not None or given > 0)

    def _sampled(self) -> Iterator[tuple[float, NDArray[np.uint8]]]:
        count = 0
        while self._video.grab():
            if count % self._step == 0:
                self._moment = self._shown_at(count)
                if self._moment > self._limits.duration_s_max or self._clock() > self._until:
                    raise BadAsset(f"too long: it did not end after {self._moment:.0f} s of video")
                fine, pixels = self._video.retrieve()
                if fine and pixels is not None and pixels.ndim == 3:
                    yield self._moment, np.asarray(pixels, np.uint8)
            count += 1

    def _shown_at(self, count: int) -> float:
        """By the frame's own time, since not all frames last equally long; by its number where it has none."""
        told = self._video.get(cv2.CAP_PROP_POS_MSEC) / 1000
        return told if np.isfinite(told) and told > self._moment else max(self._moment, count / self._rate)

    def _check_end(self, any_frame: bool) -> None:
        if not any_frame:
            raise BadAsset("corrupt: no frame can be decoded")
        sampled_s = self._step / self._rate
        if np.isfinite(self._declared_s) and self._moment + 2 * sampled_s < self._declared_s * (1 - MISSING_SHARE_MAX):
            raise BadAsset(f"truncated: it ends after {self._moment:.1f} of {self._declared_s:.1f} s")

    def _packed(self, pixels: NDArray[np.uint8]) -> bytes:
        factor = self._limits.side_kept / max(pixels.shape[:2])
        if factor < 1:
            pixels = np.asarray(cv2.resize(pixels, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA), np.uint8)
        _, packed = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, self._limits.quality])
        return packed.tobytes()


def _sharpness(pixels: NDArray[np.uint8]) -> float:
    middle = cv2.resize(pixels, (320, 180), interpolation=cv2.INTER_AREA)
    return float(cv2.Laplacian(cv2.cvtColor(middle, cv2.COLOR_BGR2GRAY), cv2.CV_32F).var())
