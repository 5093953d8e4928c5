"""How fast and how right is the vision of matching, on one core?

Steps in assets per second of processor time; the matcher beside verifying every pair (which is extrapolated from
sampled pairs); whether both choose the same frame; how much of the exact neighbours the index finds; and precision,
recall and F1 on worlds whose seeds nothing was fitted on. `--calibrate` fits the score on other seeds and prints it.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matching_features import Spent, jpeg, kept, product_pictures, scene_frames
from numpy.typing import NDArray
from rig import tell

from headrace_matching.vision.candidates import CandidateIndex, CandidateLimits
from headrace_matching.vision.evidence import draw
from headrace_matching.vision.features import AssetFeatures
from headrace_matching.vision.keyframes import keyframes
from headrace_matching.vision.keypoints import Keypoints, OrbFinder, SiftFinder
from headrace_matching.vision.matching import Match, MatchOptions, match
from headrace_matching.vision.neighbours import Neighbours
from headrace_matching.vision.pictures import read
from headrace_matching.vision.verification import verify
from headrace_matching.world.plan import WorldPlan
from headrace_matching.world.world import make, truth_of

SPEED_SEED, STEP_SEED = 7, 8
JUDGED_SEEDS = (201, 202)
CALIBRATION_WORLDS = ((101, 1, True), (101, 2, True), (101, 3, True), (102, 2, False), (103, 3, False))
"""Seed, difficulty, and whether there is anything to be found."""
Line = dict[str, object]


def steps(arguments: argparse.Namespace) -> Iterator[Line]:
    """Each step of the workers by itself."""
    spent, plan = Spent(), WorldPlan(STEP_SEED, arguments.step_assets, 1, 2)
    with TemporaryDirectory(prefix="matching-vision-") as folder:
        make(Path(folder), replace(plan, products=0))
        for path in Path(folder, "videos").iterdir():
            taken = spent.timed("keyframes", lambda path=path: list(keyframes(path)))
            spent.assets["keyframes"] = len(taken)
    orb, sift = OrbFinder(), SiftFinder()
    known = kept(None, "", product_pictures(plan, 1), arguments.step_assets, spent)
    for _, _, pixels in product_pictures(plan, 1):
        picture = read(jpeg(pixels))
        spent.timed("keypoints_orb", lambda picture=picture: orb.find(picture))
    keypoints = sift.find(picture)
    for each in known:
        if each.keypoints is not None:
            spent.timed("verify", lambda each=each: verify(each.keypoints, keypoints))
    found = verify(keypoints, keypoints)
    spent.timed("evidence", lambda: draw(picture, picture, (keypoints, keypoints), found))
    for step, seconds in sorted(spent.seconds.items()):
        count = spent.assets[step]
        yield {"what": "step", "step": step, "assets": count, "per_s_and_core": round(count / max(seconds, 1e-9), 1)}


def described_one(data: bytes) -> int:
    return len(SiftFinder().find(read(data)))


def lanes(arguments: argparse.Namespace) -> Iterator[Line]:
    """The same work in one lane, in two threads and in two processes, in wall time: only a quiet machine can say."""
    plan = WorldPlan(STEP_SEED, 4, 0, 1)
    work = [jpeg(pixels) for _, _, pixels in product_pictures(plan, 1)] * max(1, arguments.step_assets // 4)
    ways: dict[str, Callable[[], Executor]] = {
        "one": lambda: ThreadPoolExecutor(1),
        "two_threads": lambda: ThreadPoolExecutor(2),
        "two_processes": lambda: ProcessPoolExecutor(2, get_context("spawn")),
    }
    for way, opened in ways.items():
        with opened() as pool:
            list(pool.map(described_one, work[:2]))
            begun, used = time.perf_counter(), time.process_time()
            list(pool.map(described_one, work))
            seconds, own = time.perf_counter() - begun, time.process_time() - used
        line: Line = {"what": "lanes", "way": way, "assets": len(work), "assets_per_s": round(len(work) / seconds, 1)}
        if way != "two_processes":
            # What threads lose to each other, on a busy machine too; the time of processes is their own.
            line |= {"cores_used": round(own / seconds, 2), "per_s_and_core": round(len(work) / own, 1)}
        yield line


def shaken(drawn: Sequence[AssetFeatures], count: int) -> list[AssetFeatures]:
    """As many as wanted: the drawn ones first, then copies whose descriptors and places are others."""
    chance = np.random.default_rng(1)
    made = list(drawn[:count])
    while len(made) < count:
        one = drawn[len(made) % len(drawn)]
        if one.keypoints is None:
            continue
        moved = one.keypoints.points + chance.normal(0, 40, (len(one.keypoints), 4)).astype(np.float32)
        moved[:, 2] = np.abs(moved[:, 2]) + 1
        numbers = one.keypoints.descriptors + chance.integers(-45, 45, one.keypoints.descriptors.shape)
        other = Keypoints(one.keypoints.model, moved, np.clip(numbers, 0, 255).astype(np.uint8))
        number = len(made)
        made.append(
            replace(one, asset_id=f"{one.asset_id}+{number}", owner_id=f"{one.owner_id}+{number}", keypoints=other)
        )
    return made


def speed_world(arguments: argparse.Namespace) -> tuple[list[AssetFeatures], list[AssetFeatures]]:
    plan = WorldPlan(SPEED_SEED, arguments.products, arguments.frames, 2)
    drawn, spent = min(arguments.drawn or arguments.products, arguments.products), Spent()
    products = kept(arguments.features, "products", product_pictures(replace(plan, products=drawn), 1), drawn, spent)
    seen = replace(plan, products=drawn)
    frames = kept(arguments.features, "frames", scene_frames(seen), min(drawn, arguments.frames), spent)
    return shaken(products, arguments.products), shaken(frames, arguments.frames)


def matcher(arguments: argparse.Namespace) -> Iterator[Line]:
    """The matcher beside every pair; then whether both choose the same frame."""
    products, frames = speed_world(arguments)
    matched = frames[: arguments.matched or len(frames)]
    begun = time.process_time()
    CandidateIndex(products)
    built = time.process_time() - begun
    begun = time.process_time()
    found = list(match(products, matched))
    passed = time.process_time() - begun - built
    seconds = built + passed * len(frames) / len(matched)
    chance = np.random.default_rng(2)
    some, others = (chance.integers(len(each), size=arguments.pairs) for each in (products, frames))
    pairs = [(products[at].keypoints, frames[to].keypoints) for at, to in zip(some, others, strict=True)]
    begun = time.process_time()
    for one, other in pairs:
        if one is not None and other is not None:
            verify(one, other)
    each = (time.process_time() - begun) / len(pairs)
    every = each * len(products) * len(frames)
    yield {
        "what": "matcher",
        "products": len(products),
        "frames": len(frames),
        "matched": len(matched),
        "index_s": round(built, 1),
        "ms_per_frame": round(1000 * passed / len(matched), 1),
        "seconds": round(seconds, 1),
        "verify_ms": round(1000 * each, 2),
        "every_pair_s": round(every),
        "times": round(every / seconds, 1),
        "matches": len(found),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    checked = frames[: arguments.top_frames]
    found = found if len(checked) == len(matched) else list(match(products, checked))
    yield top_one(found, products, checked, arguments.top_products)


def top_one(found: list[Match], products: list[AssetFeatures], frames: list[AssetFeatures], count: int) -> Line:
    """The best frame of some products: by verifying each against all frames, and by the matcher among all products."""
    best = {each.product_id: each for each in sorted(found, key=lambda each: each.score)}
    # Half of them are seen, as far as the matcher knows, and half are not: it could be wrong about both.
    seen = [each for each in products if each.owner_id in best][: count // 2]
    unseen = [each for each in products if each.owner_id not in best][: count - len(seen)]
    same, with_match, differ = 0, 0, []
    for product in [*seen, *unseen]:
        # Of equal ones the first, as the matcher has it.
        score, frame_id = max(((verified(product, each), each.asset_id) for each in frames), key=lambda one: one[0])
        wanted = frame_id if score >= MatchOptions().score_min else None
        chosen = best[product.owner_id].best_pair if product.owner_id in best else None
        with_match += wanted is not None
        if wanted == (chosen and chosen.frame_id):
            same += 1
        else:
            differ.append([product.asset_id, wanted, score, chosen and chosen.frame_id, chosen and chosen.score_pair])
    line: Line = {"what": "top_1", "products": count, "frames": len(frames), "with_match": with_match, "same": same}
    return line | ({"differ": differ} if differ else {})


def verified(product: AssetFeatures, frame: AssetFeatures) -> float:
    one, other = product.keypoints, frame.keypoints
    return verify(one, other).score if one is not None and other is not None else 0.0


def neighbours(arguments: argparse.Namespace) -> Iterator[Line]:
    """Recall of the ten nearest, of vectors between those of real pictures and near them."""
    spent, plan = Spent(), WorldPlan(STEP_SEED, arguments.step_assets, arguments.step_assets, 2)
    drawn = kept(None, "", product_pictures(plan, 1), arguments.step_assets, spent)
    real = np.array([each.embedding.vector for each in drawn if each.embedding is not None])
    chance = np.random.default_rng(3)
    vectors, questions = (spread(real, count, chance) for count in (arguments.vectors, 500))
    begun = time.process_time()
    index = Neighbours(vectors)
    built = time.process_time() - begun
    begun = time.process_time()
    found = index.nearest(questions, 10).places
    asked = time.process_time() - begun
    exact = Neighbours(vectors, exact=True).nearest(questions, 10).places
    recall = np.mean([len(set(one) & set(other)) / 10 for one, other in zip(found, exact, strict=True)])
    yield {
        "what": "neighbours",
        "vectors": len(vectors),
        "dimensions": vectors.shape[1],
        "build_s": round(built, 2),
        "questions_per_s": round(len(questions) / max(asked, 1e-9)),
        "recall_at_10": round(float(recall), 4),
    }


def spread(real: NDArray[np.float32], count: int, chance: np.random.Generator) -> NDArray[np.float32]:
    """Mixtures of three real vectors with some noise, of unit length."""
    weights = chance.dirichlet([0.6, 0.6, 0.6], count).astype(np.float32)
    mixed = sum(weights[:, [part]] * real[chance.integers(len(real), size=count)] for part in range(3))
    noisy = mixed + chance.normal(0, 0.01, mixed.shape).astype(np.float32)
    return np.asarray(noisy / np.linalg.norm(noisy, axis=1, keepdims=True), np.float32)


def quality(arguments: argparse.Namespace) -> Iterator[Line]:
    """Worlds of three difficulties, and one in which nothing is to be found."""
    for difficulty, matches in ((1, True), (2, True), (3, True), (2, False)):
        right, missed, wrong, frames_seen, pairs = 0, 0, 0, 0, 0
        for seed in JUDGED_SEEDS[: arguments.worlds]:
            plan = WorldPlan(seed, arguments.world_products, arguments.world_videos, difficulty, matches)
            products, frames = world_features(arguments, plan)
            found = {(each.product_id, each.video_id) for each in match(products, frames)}
            true = truth_of(plan).pairs
            right, missed, wrong = right + len(found & true), missed + len(true - found), wrong + len(found - true)
            frames_seen, pairs = frames_seen + len(frames), pairs + plan.products * plan.videos
        line: Line = {"what": "quality", "difficulty": difficulty, "matches": matches, "frames": frames_seen}
        if matches:
            line |= {"true": right + missed, "precision": round(right / max(1, right + wrong), 4)}
            line |= {"recall": round(right / max(1, right + missed), 4)}
            yield line | {"f1": round(2 * right / max(1, 2 * right + wrong + missed), 4)}
        else:
            yield line | {
                "found": wrong,
                "of_pairs": round(wrong / pairs, 5),
                "per_frame": round(wrong / frames_seen, 4),
            }


def world_features(arguments: argparse.Namespace, plan: WorldPlan) -> tuple[list[AssetFeatures], list[AssetFeatures]]:
    name = "-".join(str(each) for each in asdict(plan).values())
    room, spent = plan.videos * 10 + plan.products * 10, Spent()
    products = kept(arguments.features, f"products-{name}", product_pictures(plan), room, spent)
    return products, kept(arguments.features, f"frames-{name}", scene_frames(plan), room, spent)


def calibrate(arguments: argparse.Namespace) -> Iterator[Line]:
    """The logistic curve over inliers, cells and share that fits the candidates of other seeds best."""
    rows = []
    for seed, difficulty, matches in CALIBRATION_WORLDS:
        plan = WorldPlan(seed, arguments.world_products, arguments.world_videos, difficulty, matches)
        products, frames = world_features(arguments, plan)
        shown = [product for video in range(plan.videos) for product in plan.seen(video)]
        index = CandidateIndex(products)
        for frame, product in zip(frames, shown, strict=True):
            wanted = None if product is None else plan.product_id(product)
            for place in index.of(frame, CandidateLimits()):
                one, other = products[place].keypoints, frame.keypoints
                if one is not None and other is not None and (found := verify(one, other)).inliers:
                    right = products[place].owner_id == wanted
                    rows.append((1.0, np.log1p(found.inliers), np.log1p(found.cells), found.share, right))
    known = np.array(rows, np.float64)
    inputs, true, weights = known[:, :4], known[:, 4], np.zeros(4)
    for _ in range(60):
        said = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        slope = (inputs * (said * (1 - said))[:, None]).T @ inputs + 0.01 * np.eye(4)
        weights -= np.linalg.solve(slope, inputs.T @ (said - true) + 0.01 * weights)
    named = zip(("constant", "by_inliers", "by_cells", "by_share"), weights.round(2).tolist(), strict=True)
    yield {"what": "calibrate", "pairs": len(rows), **dict(named)}


PARTS = {"steps": steps, "lanes": lanes, "matcher": matcher, "neighbours": neighbours, "quality": quality}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="only JSON lines on stdout")
    parser.add_argument("--only", choices=list(PARTS), nargs="*", default=list(PARTS))
    parser.add_argument("--calibrate", action="store_true", help="fit the score instead of measuring")
    parser.add_argument("--features", type=Path, help="a folder that keeps features for the next time")
    for name, default, text in (
        ("--products", 2_000, "of the speed test"),
        ("--frames", 2_000, "of the speed test"),
        ("--drawn", 0, "so many of either are drawn and the others are copies that were shaken (0: all are drawn)"),
        ("--matched", 0, "so many frames are matched and the time is extrapolated (0: all)"),
        ("--pairs", 2_000, "sampled for verifying every pair"),
        ("--top-products", 20, "checked in full"),
        ("--top-frames", 200, "against which they are checked"),
        ("--vectors", 100_000, "among which neighbours are sought"),
        ("--step-assets", 60, "of each step"),
        ("--worlds", 2, "per difficulty"),
        ("--world-products", 60, "of each"),
        ("--world-videos", 50, "of each"),
    ):
        parser.add_argument(name, type=int, default=default, help=text)
    arguments = parser.parse_args()
    for part in [calibrate] if arguments.calibrate else [PARTS[name] for name in arguments.only]:
        for line in part(arguments):
            tell(line, arguments.json)


if __name__ == "__main__":
    main()
