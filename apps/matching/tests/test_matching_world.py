"""The simulated world: the same by its seed, true to its truth, and as strained as its difficulty says."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import CallerError
from headrace_matching.vision.keyframes import keyframes
from headrace_matching.vision.pictures import read
from headrace_matching.world.plan import SCENE_S, Appearance, WorldPlan
from headrace_matching.world.world import WorldTruth, make, read_truth, truth_of


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".jpg", ".json", ".avi"))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_world_is_the_same_by_its_seed_and_can_be_read(tmp_path: Path) -> None:
    catalogue = WorldPlan(seed=2, products=5, videos=1, difficulty=1)
    truth = make(tmp_path / "one", catalogue)
    assert make(tmp_path / "two", catalogue) == truth == read_truth(tmp_path / "one") == truth_of(catalogue)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    pictures = sorted((tmp_path / "one" / "products").rglob("*.jpg"))
    assert [str(path.relative_to(tmp_path / "one" / "products")) for path in pictures] == [
        "product-00000/0.jpg",
        "product-00000/1.jpg",
        "product-00001/0.jpg",
        "product-00002/0.jpg",
        "product-00003/0.jpg",
        "product-00004/0.jpg",
        "product-00004/1.jpg",
    ]
    assert {read(path.read_bytes()).width for path in pictures} == {480}
    (video,) = (tmp_path / "one" / "videos").iterdir()
    found = [int(each.time_s // SCENE_S) for each in keyframes(video)]
    assert set(found) == set(range(len(catalogue.seen(0))))


def test_another_seed_is_another_world() -> None:
    one, other = (WorldPlan(seed, 3, 5, 1) for seed in (1, 2))
    assert truth_of(one) != truth_of(other)
    assert not np.array_equal(next(one.pictures(0)), next(other.pictures(0)))


def test_a_world_without_matches_has_none() -> None:
    none = WorldPlan(1, 5, 20, 3, matches=False)
    assert truth_of(none).pairs == frozenset()
    assert len(truth_of(none).video_ids) == 20
    assert truth_of(WorldPlan(1, 0, 5, 1)).pairs == frozenset()
    assert len(truth_of(WorldPlan(1, 5, 20, 3)).pairs) > 10


def test_the_product_of_a_scene_is_what_makes_it_differ() -> None:
    """The truth is not a list beside the pictures: the same scene without its product looks otherwise."""
    catalogue, without = WorldPlan(4, 3, 4, 1), WorldPlan(4, 3, 4, 1, matches=False)
    for video in range(2):
        for product, scene, plain in zip(
            catalogue.seen(video), catalogue.scenes(video), without.scenes(video), strict=True
        ):
            assert (len(scene.things) > len(plain.things)) == (product is not None)


def test_what_was_found_is_judged_by_the_truth() -> None:
    pairs = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
    truth = WorldTruth(("a", "b"), ("x", "y"), tuple(Appearance(*pair, 0.0, 2.0) for pair in pairs))
    half = truth.judge([("a", "x"), ("a", "y"), ("c", "x")])
    assert (half.precision, half.recall, half.found, half.true) == (2 / 3, 0.5, 3, 4)
    assert half.f1 == pytest.approx(4 / 7)
    assert truth.judge([]).f1 == 0.0
    empty = WorldTruth((), (), ())
    assert (empty.judge([]).f1, empty.judge([("a", "x")]).precision) == (1.0, 0.0)


def test_an_unknown_difficulty_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="no difficulty 4"):
        make(tmp_path / "world", WorldPlan(1, 1, 1, 4))
    assert not (tmp_path / "world").exists()
