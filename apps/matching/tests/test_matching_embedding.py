"""Vectors of pictures: what is alike is near; a model of somebody else takes the same place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cv2
import matching_tiny_model
import numpy as np
import pytest
from matching_pieces import picture

from headrace.errors import CallerError
from headrace_matching.vision.embedding import ClassicEmbedder, Embedder, OnnxEmbedder
from headrace_matching.world.artwork import Pixels
from headrace_matching.world.plan import WorldPlan


def shown(number: int) -> Pixels:
    return next(WorldPlan(8, 12, 0, 1).pictures(number))


def test_vectors_have_unit_length_and_come_in_order() -> None:
    embedder: Embedder = ClassicEmbedder()
    pictures = [picture(shown(number)) for number in range(4)]
    vectors = embedder.embed(pictures)
    assert vectors.dtype == np.float32
    assert vectors.shape == (4, embedder.dimensions)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.array_equal(vectors[2], embedder.embed(pictures[2:3])[0])
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_the_same_product_in_another_light_and_size_is_nearest() -> None:
    embedder = ClassicEmbedder()
    known = embedder.embed([picture(shown(number)) for number in range(0, 12, 3)])
    for at, number in enumerate(range(0, 12, 3)):
        smaller = cv2.resize(shown(number), None, fx=0.4, fy=0.4, interpolation=cv2.INTER_AREA)
        darker = cv2.convertScaleAbs(smaller, alpha=0.8, beta=5)
        likeness = known @ embedder.embed([picture(np.asarray(darker, np.uint8))])[0]
        assert int(np.argmax(likeness)) == at


def test_a_backdrop_does_not_count() -> None:
    embedder = ClassicEmbedder()
    pixels = shown(3)
    wide = cv2.copyMakeBorder(pixels, 150, 150, 300, 20, cv2.BORDER_CONSTANT, value=(250, 250, 250))
    near, far = embedder.embed([picture(pixels), picture(np.asarray(wide, np.uint8))])
    assert float(near @ far) > 0.97


@pytest.mark.parametrize("pixels", [np.zeros((16, 16, 3), np.uint8), np.full((40, 16, 3), 255, np.uint8)])
def test_a_picture_of_nothing_has_a_vector_too(pixels: Pixels) -> None:
    (vector,) = ClassicEmbedder().embed([picture(pixels)])
    assert np.isfinite(vector).all()


@pytest.mark.parametrize("side", [8, "side"])
def test_a_model_takes_the_place_of_the_classic_one(tmp_path: Path, side: int | str) -> None:
    embedder: Embedder = OnnxEmbedder(matching_tiny_model.written(tmp_path / "means.onnx", side=side))
    red, grey = np.zeros((32, 32, 3), np.uint8), np.full((32, 32, 3), 90, np.uint8)
    red[:, :, 2] = 250
    vectors = embedder.embed([picture(red), picture(grey)])
    assert embedder.dimensions == 3
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert int(np.argmax(vectors[0])) == 0
    assert vectors[0, 0] > 0 > vectors[0, 1]
    assert embedder.embed([]).shape == (0, 3)
    same = OnnxEmbedder(matching_tiny_model.written(tmp_path / "again.onnx", side=side))
    assert same.model == embedder.model
    assert embedder.model.startswith("onnx-")


def test_a_model_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="cannot be read"):
        OnnxEmbedder(tmp_path / "nowhere.onnx")
    (tmp_path / "noise.onnx").write_bytes(b"noise")
    with pytest.raises(CallerError, match=r"noise\.onnx cannot be used"):
        OnnxEmbedder(tmp_path / "noise.onnx")
    with pytest.raises(CallerError, match="no single input"):
        OnnxEmbedder(matching_tiny_model.written(tmp_path / "grey.onnx", channels=1))


def test_without_the_extra_the_error_names_it(tmp_path: Path) -> None:
    """In a process in which the library is not there."""
    path = matching_tiny_model.written(tmp_path / "means.onnx")
    program = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "from pathlib import Path\n"
        "from headrace.errors import MissingExtra\n"
        "from headrace_matching.vision.embedding import OnnxEmbedder\n"
        "try:\n    OnnxEmbedder(Path(sys.argv[1]))\n"
        "except MissingExtra as error:\n    print(error, error.hint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "means.onnx needs onnxruntime pip install 'headrace-matching[model]'\n"
