"""A picture as a point: pictures that look alike lie near each other.

The default needs no model and no download. It describes a picture by which colours are in it, by where it has edges of
which direction, and by its coarse distribution of light. A picture of a shop is cut to what is not its plain backdrop
first. This finds the same thing in another size and light cheaply; that a small thing stands in a full room it cannot
see, for which the matcher also asks the keypoints.

`OnnxEmbedder` takes any model with one picture input (n × 3 × height × width) and a vector as its first output.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from headrace.errors import CallerError, MissingExtra
from headrace_matching.vision.pictures import Picture
from headrace_matching.vision.threads import one_thread_each

Vectors = NDArray[np.float32]
"""n × dimensions, each of unit length (or zero, where a picture has nothing to be described by)."""
SIDE = 96
HUES, SATURATIONS, LIGHTS, GREYS = 12, 3, 3, 6
ORIENTATIONS = 8
GRIDS = (1, 2, 3)
COARSE = (6, 6)
SHARES = (0.6, 0.25, 0.15)
"""How much colours, edges and coarse light count in a product of two vectors."""
PLAIN_LEVELS = 12
"""So many levels a backdrop may differ from its own median."""
_PLAIN_SHARE = 0.9


class Embedder(Protocol):
    """Makes vectors of pictures. Several threads may use one at once."""

    @property
    def model(self) -> str:
        """What is compared only with its like; it changes whenever the same picture would give another vector."""

    @property
    def dimensions(self) -> int: ...

    def embed(self, pictures: Sequence[Picture]) -> Vectors:
        """One vector of unit length per picture, in their order."""


class ClassicEmbedder:
    """Colours, edges and coarse light."""

    model = "classic-1"
    dimensions = (
        HUES * SATURATIONS * LIGHTS + GREYS + ORIENTATIONS * sum(n * n for n in GRIDS) + COARSE[0] * COARSE[1] - 1
    )

    def __init__(self) -> None:
        one_thread_each()

    def embed(self, pictures: Sequence[Picture]) -> Vectors:
        return np.array([_described(each) for each in pictures], np.float32).reshape(-1, self.dimensions)


class OnnxEmbedder:
    """Vectors by a model of somebody else. Pixels are red, green, blue, scaled and shifted as for ImageNet."""

    def __init__(self, path: Path, side: int = 224) -> None:
        data = _bytes(path)
        self.model = "onnx-" + hashlib.blake2b(data, digest_size=6).hexdigest()
        self._session = _session(data, path)
        self._input, self._side = _picture_input(self._session, path, side)
        self.dimensions = int(self._run(np.zeros((1, 3, self._side, self._side), np.float32)).shape[1])

    def embed(self, pictures: Sequence[Picture]) -> Vectors:
        if not pictures:
            return np.empty((0, self.dimensions), np.float32)
        size = (self._side, self._side)
        small = np.stack([cv2.resize(each.pixels, size, interpolation=cv2.INTER_AREA) for each in pictures])
        scaled = (small[:, :, :, ::-1].astype(np.float32) / 255 - _MEAN) / _SPREAD
        return _unit(self._run(np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))))

    def _run(self, pixels: NDArray[np.float32]) -> Vectors:
        answer = np.asarray(self._session.run(None, {self._input: pixels})[0], np.float32)
        return answer.reshape(len(pixels), -1)


class _Session(Protocol):
    """What is used of onnxruntime, which has no types of its own."""

    def get_inputs(self) -> Sequence[Any]: ...

    def run(self, outputs: None, feed: Mapping[str, Any]) -> Sequence[Any]: ...


_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_SPREAD = np.array([0.229, 0.224, 0.225], np.float32)


def _described(picture: Picture) -> NDArray[np.float32]:
    small = np.asarray(
        cv2.resize(_without_backdrop(picture.pixels), (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8
    )
    grey = cv2.cvtColor(small, cv2.COLOR_BGR2GRAY).astype(np.float32)
    parts = (_colours(small), _edges(grey), _coarse(grey))
    weighed = [part * np.sqrt(share) for part, share in zip(parts, SHARES, strict=True)]
    return np.concatenate(weighed).astype(np.float32)


def _without_backdrop(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The box around what differs from a plain frame; the whole picture if it has none."""
    edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]).astype(np.int16)
    plain = np.median(edge, axis=0)
    if (np.abs(edge - plain).max(axis=1) <= PLAIN_LEVELS).mean() < _PLAIN_SHARE:
        return pixels
    differs = np.abs(pixels.astype(np.int16) - plain.astype(np.int16)).max(axis=2) > 2 * PLAIN_LEVELS
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if not len(rows):
        return pixels
    return pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _colours(small: NDArray[np.uint8]) -> NDArray[np.float32]:
    """How much of each colour there is; what is nearly grey counts by its lightness. Each pixel votes for two hues."""
    parts = cv2.split(cv2.cvtColor(small, cv2.COLOR_BGR2HSV))
    hue, saturation, light = (part.ravel().astype(np.float32) for part in parts)
    coloured = (saturation > 40) & (light > 30)
    place = hue[coloured] / 180 * HUES
    low, rest = np.floor(place).astype(np.int64) % HUES, place - np.floor(place)
    level = np.minimum((saturation[coloured] - 40) / 216 * SATURATIONS, SATURATIONS - 1).astype(np.int64)
    bright = np.minimum((light[coloured] - 30) / 226 * LIGHTS, LIGHTS - 1).astype(np.int64)
    cell, size = level * LIGHTS + bright, HUES * SATURATIONS * LIGHTS
    steps = SATURATIONS * LIGHTS
    counted = np.bincount(low * steps + cell, 1 - rest, size)
    counted += np.bincount((low + 1) % HUES * steps + cell, rest, size)
    greys = np.bincount((light[~coloured] / 256 * GREYS).astype(np.int64), minlength=GREYS)
    # The root keeps a wall from hiding everything in front of it.
    return _one_unit(np.sqrt(np.concatenate([counted, greys])))


def _edges(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    across, down = cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1)
    strength = np.sqrt(across * across + down * down)
    # Without a sign: a dark thing before a light wall is the same thing before a dark one.
    angle = (np.arctan2(down, across) % np.pi / np.pi * ORIENTATIONS).astype(np.int64) % ORIENTATIONS
    rows, columns = np.indices(grey.shape)
    found = []
    for count in GRIDS:
        cell = rows * count // SIDE * count + columns * count // SIDE
        sums = np.bincount((cell * ORIENTATIONS + angle).ravel(), strength.ravel(), count * count * ORIENTATIONS)
        found.append(_one_unit(np.sqrt(sums)))
    return _one_unit(np.concatenate(found))


def _coarse(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    lowest = cv2.dct(cv2.resize(grey, (32, 32), interpolation=cv2.INTER_AREA))[: COARSE[0], : COARSE[1]]
    # Without the first, which is how light all of it is.
    return _one_unit(lowest.ravel()[1:])


def _unit(vectors: NDArray[Any]) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _one_unit(vector: NDArray[Any]) -> NDArray[np.float32]:
    return _unit(vector[None]).ravel()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CallerError(f"the model {path} cannot be read: {error.strerror}") from error


def _session(model: bytes, path: Path) -> _Session:
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise MissingExtra(f"{path.name} needs onnxruntime", "pip install 'headrace-matching[model]'") from error
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session: _Session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        # The library has errors of its own for everything that is wrong with a model, without a common name.
        raise CallerError(f"the model {path.name} cannot be used: {error}") from error
    return session


def _picture_input(session: _Session, path: Path, side: int) -> tuple[str, int]:
    """The name of the model's input, and the side it wants if it says so."""
    told = session.get_inputs()
    shape = list(told[0].shape) if len(told) == 1 else []
    if len(shape) != 4 or shape[1] not in (3, "3"):
        raise CallerError(
            f"the model {path.name} has no single input of n × 3 × height × width", f"its inputs: {shape}"
        )
    return str(told[0].name), shape[2] if isinstance(shape[2], int) else side
