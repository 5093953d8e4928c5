"""Products are found in frames: what is verified, what is asked for, what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import cv2
import numpy as np
import pytest
from matching_pieces import features, found_in, picture, small_world

from headrace.errors import CallerError
from headrace_matching.vision.candidates import CandidateIndex, CandidateLimits
from headrace_matching.vision.evidence import draw
from headrace_matching.vision.features import AssetFeatures, Embedding
from headrace_matching.vision.keypoints import Keypoints, OrbFinder
from headrace_matching.vision.matching import Match, MatchOptions, match
from headrace_matching.vision.neighbours import EXACT_MAX, Neighbours
from headrace_matching.vision.verification import possible, verify
from headrace_matching.world.artwork import Pixels
from headrace_matching.world.world import truth_of


def pairs(found: list[Match]) -> set[tuple[str, str]]:
    return {(each.product_id, each.video_id) for each in found}


@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_the_products_of_a_small_world_are_found(difficulty: int) -> None:
    catalogue, found = small_world(difficulty)[0], list(found_in(difficulty))
    quality = truth_of(catalogue).judge(pairs(found))
    assert quality.precision == 1.0
    assert quality.recall >= {1: 1.0, 2: 1.0, 3: 0.75}[difficulty]
    assert [(each.product_id, each.video_id) for each in found] == sorted(pairs(found))
    for each in found:
        assert each.score == each.best_pair.score_pair >= 0.5
        assert each.best_pair.img_id.startswith(f"img-{int(each.product_id[-5:])}-")
        assert each.best_pair.frame_id.startswith(f"frame-{int(each.video_id[-5:])}-")


def test_nothing_is_found_where_nothing_is() -> None:
    _, products, frames = small_world(2, False)
    assert found_in(2, False) == ()
    assert list(match([], frames)) == []
    assert list(match(products, [])) == []


def test_the_result_depends_neither_on_lanes_nor_on_blocks() -> None:
    _, products, frames = small_world(2)
    frames = frames[2:6]
    whole = list(match(products, frames))
    assert list(match(products, frames, MatchOptions(lanes=3))) == whole
    in_blocks = list(match(products, frames, MatchOptions(block_max=3)))
    assert pairs(in_blocks) == pairs(whole)


def test_frames_that_can_be_read_once_are_enough_for_one_block_only() -> None:
    _, products, frames = small_world(2)
    frames = frames[2:6]
    assert list(match(iter(products), iter(frames))) == list(match(products, frames))
    with pytest.raises(CallerError, match="more than 3 pictures"):
        list(match(products, iter(frames), MatchOptions(block_max=3)))


def test_only_equal_models_are_compared() -> None:
    _, products, frames = small_world(1)
    foreign = [
        replace(
            each,
            keypoints=each.keypoints and replace(each.keypoints, model="theirs"),
            embedding=each.embedding and Embedding("theirs", each.embedding.vector),
        )
        for each in frames
    ]
    assert CandidateIndex(products).of(foreign[0], CandidateLimits()) == []
    assert list(match(products, foreign)) == []
    assert list(match([*products, *(replace(each, asset_id="theirs") for each in foreign[:1])], foreign[:1])) != []


def test_an_asset_without_features_is_passed_over() -> None:
    _, products, frames = small_world(1)
    frames = frames[:2]
    empty = AssetFeatures("none", "product-none", None, None)
    assert list(match([empty, *products], [replace(empty, owner_id="video-none"), *frames])) == list(
        match(products, frames)
    )


def test_a_stop_of_the_caller_passes_through() -> None:
    _, products, frames = small_world(1)

    def stopped() -> Iterator[AssetFeatures]:
        yield frames[0]
        raise InterruptedError("stop")

    with pytest.raises(InterruptedError):
        list(match(products, stopped()))


def test_a_small_thing_is_a_candidate_by_its_keypoints_alone() -> None:
    catalogue, products, frames = small_world(3)
    index = CandidateIndex(products)
    shown = [product for video in range(catalogue.videos) for product in catalogue.seen(video)]
    true = [
        (frame, catalogue.product_id(product))
        for frame, product in zip(frames, shown, strict=True)
        if product is not None
    ]
    voted = [
        wanted in {products[at].owner_id for at in index.of(frame, CandidateLimits(by_keypoints=3, by_embedding=0))}
        for frame, wanted in true
    ]
    assert len(true) == 4
    assert sum(voted) >= 3


def test_a_twin_in_the_catalogue_stays_and_a_sister_goes() -> None:
    """What rests on the same points of a frame is kept only if it explains about as much of it."""
    _, products, frames = small_world(1)
    best = max(found_in(1), key=lambda each: each.score)
    picture_of = next(each for each in products if each.asset_id == best.best_pair.img_id)
    assert picture_of.keypoints is not None
    top = picture_of.keypoints.points[:, 1] < np.quantile(picture_of.keypoints.points[:, 1], 0.55)
    half = Keypoints(
        picture_of.keypoints.model, picture_of.keypoints.points[top], picture_of.keypoints.descriptors[top]
    )
    twin = replace(picture_of, asset_id="twin", owner_id="product-twin")
    sister = replace(picture_of, asset_id="sister", owner_id="product-sister", keypoints=half)
    frame = [each for each in frames if each.asset_id == best.best_pair.frame_id]
    together = {each.product_id for each in match([picture_of, twin, sister], frame)}
    assert together == {best.product_id, "product-twin"}
    assert {each.product_id for each in match([sister], frame)} == {"product-sister"}


def test_keypoints_are_told_in_pixels_of_the_asset() -> None:
    _, products, _ = small_world(1)
    small = products[0].keypoints
    assert small is not None
    catalogue = small_world(1)[0]
    pixels = next(catalogue.pictures(0))
    large = features("large", "p", picture(cv2.resize(pixels, None, fx=4, fy=4, interpolation=cv2.INTER_CUBIC)))
    assert large.keypoints is not None
    found = verify(small, large.keypoints)
    assert found.homography is not None
    assert np.allclose(found.homography[:2, :2] / found.homography[2, 2], np.eye(2) * 4, atol=0.1)


def test_orb_finds_what_is_not_strained() -> None:
    catalogue, _, _ = small_world(1)
    finder = OrbFinder()
    wanted = catalogue.seen(0)
    scenes = list(catalogue.scenes(0))
    at = next(number for number, product in enumerate(wanted) if product is not None)
    product = wanted[at]
    assert product is not None
    frame = finder.find(picture(scenes[at].frame(0.8)))
    assert frame.are_bits
    scores = [
        verify(finder.find(picture(next(catalogue.pictures(number)))), frame).score
        for number in range(catalogue.products)
    ]
    assert int(np.argmax(scores)) == product
    assert scores[product] > 0.5


@pytest.mark.parametrize("pixels", [np.full((64, 64, 3), 128, np.uint8), np.zeros((20, 300, 3), np.uint8)])
def test_a_plain_picture_has_no_keypoints_and_no_match(pixels: Pixels) -> None:
    plain = features("plain", "p", picture(pixels))
    assert plain.keypoints is not None
    assert len(plain.keypoints) == 0
    assert list(match([plain], [plain])) == []


@pytest.mark.parametrize(
    ("what", "homography"),
    [
        ("mirrored", [[-1, 0, 200], [0, 1, 0], [0, 0, 1]]),
        ("across the horizon", [[1, 0, 0], [0, 1, 0], [0.02, 0, -1]]),
        ("a line", [[1, 0, 0], [0, 0.001, 0], [0, 0, 1]]),
        ("far too small", [[0.01, 0, 0], [0, 0.01, 0], [0, 0, 1]]),
        ("far too large", [[30, 0, 0], [0, 30, 0], [0, 0, 1]]),
        ("not finite", [[np.nan, 0, 0], [0, 1, 0], [0, 0, 1]]),
    ],
)
def test_what_no_camera_can_make_is_refused(what: str, homography: list[list[float]]) -> None:
    points = np.array([[10, 10], [100, 10], [100, 100], [10, 100]], np.float32)
    assert possible(np.eye(3), points)
    assert possible(-np.eye(3), points)
    assert not possible(np.array(homography, np.float64), points), what


def test_keypoints_of_others_are_checked() -> None:
    points, descriptors = np.zeros((3, 4), np.float32), np.zeros((3, 128), np.uint8)
    Keypoints("theirs", points, descriptors)
    for wrong in (
        (points[:, :2], descriptors),
        (points[:2], descriptors),
        (points * np.nan, descriptors),
        (points, descriptors.astype(np.int32)),
        (points, np.full((3, 64), np.inf, np.float32)),
    ):
        with pytest.raises(CallerError):
            Keypoints("theirs", *wrong)
    with pytest.raises(CallerError, match="finite"):
        Embedding("theirs", np.array([1.0, np.nan], np.float32))


@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_the_nearest_of_many_are_nearly_always_found(kind: type) -> None:
    chance = np.random.default_rng(1)
    centres = chance.normal(0, 1, (60, 32))
    scattered = centres[chance.integers(60, size=3 * EXACT_MAX)] + chance.normal(0, 0.5, (3 * EXACT_MAX, 32))
    vectors = scattered.astype(np.float32) if kind is np.float32 else np.clip(scattered * 30 + 128, 0, 255).astype(kind)
    questions = vectors[::100]
    exact = Neighbours(vectors, exact=True).nearest(questions, 10)
    found = Neighbours(vectors).nearest(questions, 10)
    assert exact.places[:, 0].tolist() == list(range(0, 3 * EXACT_MAX, 100))
    shared = [len(set(one) & set(other)) for one, other in zip(exact.places, found.places, strict=True)]
    assert np.mean(shared) / 10 >= 0.95


def test_few_vectors_are_enough_to_ask() -> None:
    few = Neighbours(np.eye(3, 8, dtype=np.float32))
    assert few.nearest(np.eye(1, 8, dtype=np.float32), 5).places.tolist() == [[0, 1, 2, -1, -1]]
    assert few.nearest(np.empty((0, 8), np.float32), 2).places.shape == (0, 2)
    assert Neighbours(np.empty((0, 8), np.float32)).nearest(np.eye(1, 8), 2).places.tolist() == [[-1, -1]]


def test_evidence_shows_both_pictures_and_what_agrees() -> None:
    catalogue = small_world(1)[0]
    best = max(found_in(1), key=lambda each: each.score)
    video = int(best.video_id[-5:])
    scene = list(catalogue.scenes(video))[int(best.best_pair.frame_id.split("-")[2])]
    image = picture(next(catalogue.pictures(int(best.product_id[-5:]))))
    frame = picture(scene.frame(0.8))
    keypoints = features("a", "a", image).keypoints, features("b", "b", frame).keypoints
    assert keypoints[0] is not None
    assert keypoints[1] is not None
    found = verify(keypoints[0], keypoints[1])
    shown = cv2.imdecode(
        np.frombuffer(draw(image, frame, (keypoints[0], keypoints[1]), found), np.uint8), cv2.IMREAD_COLOR
    )
    assert shown is not None
    plain = draw(image, frame, (keypoints[0], keypoints[1]), verify(keypoints[0].strongest(0), keypoints[1]))
    bare = cv2.imdecode(np.frombuffer(plain, np.uint8), cv2.IMREAD_COLOR)
    assert bare is not None
    assert shown.shape == bare.shape
    assert shown.shape[1] > 420 + 600
    assert 0.005 < (np.abs(shown.astype(int) - bare).max(axis=2) > 40).mean() < 0.5
