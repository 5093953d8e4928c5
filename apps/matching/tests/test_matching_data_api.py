"""The data contract of workers: assets, features, matches and evidence, and the phases that close them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from matching_content import EMBEDDING, JPEG, MATCH, PNG, image, keyframe, keypoints
from matching_world import MatchingWorld, opened_world

from headrace.testing.rig.s3 import Bucket
from headrace_matching.assets import asset_store
from headrace_matching.events.names import CLOSED_BY, Phase
from headrace_matching.settings import MatchingSettings


async def pages(world: MatchingWorld, path: str, name: str, **params: Any) -> list[dict[str, Any]]:
    """Everything of a list, three at a time."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await world.client.get(path, params={"limit": 3, **params, **cursor})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page[name]
        if page["next"] is None:
            return found
        cursor = {"cursor": page["next"]}


async def add(world: MatchingWorld, job: str, fields: dict[str, Any]) -> str:
    answer = await world.client.post(f"/jobs/{job}/assets", json=fields)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["asset_id"])


async def upload(world: MatchingWorld, job: str, content: bytes, media_type: str = "image/png", **fields: str) -> Any:
    files = {"file": ("picture", content, media_type)}
    return await world.client.post(f"/jobs/{job}/assets", data=fields, files=files)


async def put(world: MatchingWorld, path: str, body: dict[str, Any] | bytes) -> int:
    sent = {"content": body} if isinstance(body, bytes) else {"json": body}
    return (await world.client.put(path, **sent)).status_code  # type: ignore[arg-type]


async def test_assets_come_by_url_or_as_files_and_are_listed(world: MatchingWorld) -> None:
    job = await world.open()
    ids = [await add(world, job, image(f"p{number}")) for number in range(4)]
    frames = [await add(world, job, keyframe("v", number / 2)) for number in range(4)]
    first, again = [await upload(world, job, PNG, kind="image", product_id="p9") for _ in range(2)]
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    ids.append(first.json()["asset_id"])
    assert await add(world, job, image("p0")) == ids[0]
    listed = await pages(world, f"/jobs/{job}/assets", "assets", kind="image")
    assert {each["asset_id"] for each in listed} == set(ids)
    by_id = {each["asset_id"]: each for each in listed}
    assert by_id[ids[0]] == {
        "asset_id": ids[0],
        "kind": "image",
        "product_id": "p0",
        "time_s": None,
        "content_url": "https://shop.example/p0.jpg",
    }
    shown = {each["asset_id"]: each for each in await pages(world, f"/jobs/{job}/assets", "assets", kind="keyframe")}
    assert {key: (each["video_id"], each["time_s"]) for key, each in shown.items()} == {
        frame: ("v", number / 2) for number, frame in enumerate(frames)
    }
    assert len(await pages(world, f"/jobs/{job}/assets", "assets")) == 9
    content = await world.client.get(by_id[ids[-1]]["content_url"])
    assert (content.content, content.headers["content-type"]) == (PNG, "image/png")
    assert content.headers["x-content-type-options"] == "nosniff"
    elsewhere = await world.client.get(f"/assets/{ids[0]}/content")
    assert (elsewhere.status_code, elsewhere.headers["location"]) == (307, "https://shop.example/p0.jpg")
    assert (await world.view(job))["tallies"]["image"]["assets"] == 5


async def test_an_upload_may_hold_anything_and_harms_nobody(embedded_world: MatchingWorld) -> None:
    job = await embedded_world.open()
    page = b"<script>alert(1)</script>"
    fields = {"kind": "keyframe", "video_id": "v", "time_s": "1.5"}
    for content, kind in ((page, "text/html"), (page, "image/svg+xml"), (b"", "image/png"), (b"\0" * 2_000_000, "x/y")):
        answer = await upload(embedded_world, job, content, kind, **fields)
        assert answer.status_code == 201, answer.text
        got = await embedded_world.client.get(f"/assets/{answer.json()['asset_id']}/content")
        assert got.content == content
        assert got.headers["content-type"] == ("image/png" if kind == "image/png" else "application/octet-stream")


NO_ASSETS: list[Any] = [
    {},
    {"kind": "sound", "product_id": "p"},
    {"kind": "image", "video_id": "v"},
    {"kind": "image"},
    {"kind": "keyframe", "product_id": "p"},
    {"kind": "image", "product_id": "p", "video_id": "v"},
    {"kind": "image", "product_id": "a/b"},
    {"kind": "image", "product_id": "a\nb"},
    {"kind": "image", "product_id": "p" * 201},
    {"kind": "keyframe", "video_id": "v", "time_s": -1},
    {"kind": "image", "product_id": "p", "url": None},
    {"kind": "image", "product_id": "p", "url": "ftp://x/y"},
    [],
    "text",
]


async def test_an_asset_that_is_none_is_refused(embedded_world: MatchingWorld) -> None:
    job = await embedded_world.open()
    for fields in NO_ASSETS:
        sent = {"url": "https://x.example/a", **fields} if isinstance(fields, dict) else fields
        answer = await embedded_world.client.post(f"/jobs/{job}/assets", json=sent)
        assert answer.status_code == 422, (fields, answer.text)
    assert (await embedded_world.client.get(f"/jobs/{job}/assets")).json()["assets"] == []


FORM = b'--x\r\nContent-Disposition: form-data; name="kind"\r\n\r\nimage\r\n--x--'
UNREADABLE = [
    (b"{", "application/json", 400),
    (b"\xff", "application/json", 400),
    (b"no form", "multipart/form-data; boundary=x", 400),
    (b"no form", "multipart/form-data", 400),
    (FORM, "multipart/form-data; boundary=x", 422),
]


async def test_a_body_that_cannot_be_read_is_refused(embedded_world: MatchingWorld) -> None:
    job = await embedded_world.open()
    for content, kind, status in UNREADABLE:
        headers = {"Content-Type": kind}
        answer = await embedded_world.client.post(f"/jobs/{job}/assets", content=content, headers=headers)
        assert answer.status_code == status, (content, answer.text)


async def test_features_come_back_as_they_were_put(world: MatchingWorld) -> None:
    job = await world.open()
    ids = [await add(world, job, image(f"p{number}")) for number in range(4)]
    frame = await add(world, job, keyframe("v", 1.0))
    for asset in (*ids, frame):
        for _ in range(2):
            assert await put(world, f"/jobs/{job}/assets/{asset}/embedding", EMBEDDING) == 204
            assert await put(world, f"/jobs/{job}/assets/{asset}/keypoints", keypoints()) == 204
    changed = {"model": "colour-2", "vector": [1]}
    assert await put(world, f"/jobs/{job}/assets/{ids[0]}/embedding", changed) == 204
    found = await pages(world, f"/jobs/{job}/embeddings", "embeddings", kind="image")
    assert found == [
        {"asset_id": each, "kind": "image", **(changed if each == ids[0] else EMBEDDING)} for each in sorted(ids)
    ]
    points = await pages(world, f"/jobs/{job}/keypoints", "keypoints")
    assert [each["asset_id"] for each in points] == sorted([*ids, frame])
    assert all({**keypoints(), "asset_id": each["asset_id"], "kind": each["kind"]} == each for each in points)
    empty = keypoints(0)
    assert await put(world, f"/jobs/{job}/assets/{frame}/keypoints", empty) == 204
    (shown,) = await pages(world, f"/jobs/{job}/keypoints", "keypoints", kind="keyframe")
    assert (shown["points"], shown["descriptors"]["shape"]) == ([], [0, 4])
    assert await put(world, f"/jobs/{job}/assets/nothing/embedding", EMBEDDING) == 404
    assert await put(world, f"/jobs/{job}/assets/nothing/keypoints", keypoints()) == 404
    assert await put(world, "/jobs/nobody/assets/a/keypoints", keypoints()) == 404


async def test_a_page_of_keypoints_ends_when_it_is_large(embedded_world: MatchingWorld) -> None:
    job = await embedded_world.open()
    ids = sorted([await add(embedded_world, job, image(f"p{number}")) for number in range(3)])
    large = keypoints(2, shape=[2, 600_000], base64="AAAA" * 400_000)
    for asset in ids:
        assert await put(embedded_world, f"/jobs/{job}/assets/{asset}/keypoints", large) == 204
    page = (await embedded_world.client.get(f"/jobs/{job}/keypoints")).json()
    assert [each["asset_id"] for each in page["keypoints"]] == ids[:2]
    rest = await embedded_world.client.get(f"/jobs/{job}/keypoints", params={"cursor": page["next"]})
    assert [each["asset_id"] for each in rest.json()["keypoints"]] == ids[2:]


NO_FEATURES: list[tuple[str, Any]] = [
    ("embedding", {"model": "m"}),
    ("embedding", {"model": "", "vector": [1.0]}),
    ("embedding", {"model": "m", "vector": []}),
    ("embedding", {"model": "m", "vector": [1.0] * 20_000}),
    ("embedding", {"model": "m", "vector": ["x"]}),
    ("embedding", b'{"model": "m", "vector": [NaN]}'),
    ("embedding", b'{"model": "m", "vector": [1e999]}'),
    ("keypoints", keypoints(dtype="complex64")),
    ("keypoints", keypoints(shape=[3, 4])),
    ("keypoints", keypoints(shape=[2, 5])),
    ("keypoints", keypoints(shape=[2])),
    ("keypoints", keypoints(shape=[2, -4])),
    ("keypoints", keypoints(base64="****")),
    ("keypoints", {**keypoints(), "points": [[1, 2, 3], [1, 2, 3, 4]]}),
    ("dead", {"reason": ""}),
]


async def test_a_feature_that_cannot_be_used_is_refused(embedded_world: MatchingWorld) -> None:
    job = await embedded_world.open()
    asset = await add(embedded_world, job, image("p"))
    headers = {"Content-Type": "application/json"}
    for feature, body in NO_FEATURES:
        sent: dict[str, Any] = {"json": body} if isinstance(body, dict) else {"content": body}
        answer = await embedded_world.client.put(f"/jobs/{job}/assets/{asset}/{feature}", headers=headers, **sent)
        assert answer.status_code in (400, 422), (body, answer.text)
    assert (await embedded_world.client.get(f"/jobs/{job}/embeddings")).json()["embeddings"] == []
    assert (await embedded_world.client.get(f"/jobs/{job}/keypoints")).json()["keypoints"] == []


async def test_dead_assets_are_counted_with_their_reason(world: MatchingWorld) -> None:
    job = await world.open()
    good, bad = await add(world, job, image("p")), await add(world, job, image("q"))
    truncated = await add(world, job, {"kind": "keyframe", "video_id": "v", "dead": "the video is cut off"})
    assert await put(world, f"/jobs/{job}/assets/{bad}/dead", {"reason": "1 x 1 pixel"}) == 204
    assert await put(world, f"/jobs/{job}/assets/nothing/dead", {"reason": "x"}) == 404
    tallies = (await world.view(job))["tallies"]
    assert (tallies["image"]["assets"], tallies["image"]["dead"]) == (2, 1)
    assert (tallies["keyframe"]["assets"], tallies["keyframe"]["dead"]) == (1, 1)
    listed = {each["asset_id"]: each.get("dead") for each in await pages(world, f"/jobs/{job}/assets", "assets")}
    assert listed == {good: None, bad: "1 x 1 pixel", truncated: "the video is cut off"}
    assert (await world.client.get(f"/assets/{truncated}/content")).status_code == 404


async def test_results_are_ranked_with_time_and_evidence(world: MatchingWorld) -> None:
    job = await world.open()
    img, frame = await add(world, job, image("p")), await add(world, job, keyframe("v", 12.5))
    scores = {("p", "v"): 0.7, ("p", "w"): 0.9, ("q", "v"): 0.9, ("q", "w x%"): 0.2}
    for (product, video), score in scores.items():
        body = {"score": score, "best_pair": {"img_id": img, "frame_id": frame, "score_pair": score / 2}}
        for _ in range(2):
            assert (await world.client.put(f"/jobs/{job}/matches/{product}/{video}", json=body)).status_code == 204
    assert await put(world, f"/jobs/{job}/evidence/q/v", PNG) == 204
    assert await put(world, f"/jobs/{job}/evidence/q/v", JPEG) == 204
    assert await put(world, f"/jobs/{job}/evidence/q/nothing", PNG) == 404
    assert await put(world, f"/jobs/{job}/evidence/q/v", b"GIF89a") == 422
    results = await pages(world, f"/jobs/{job}/results", "results")
    assert [(each["product_id"], each["video_id"], each["score"]) for each in results] == [
        ("p", "w", 0.9),
        ("q", "v", 0.9),
        ("p", "v", 0.7),
        ("q", "w x%", 0.2),
    ]
    best = results[1]
    assert best["best_pair"] == {"img_id": img, "frame_id": frame, "score_pair": 0.45}
    assert best["time_s"] == 12.5
    picture = await world.client.get(best["evidence_url"])
    assert (picture.content, picture.headers["content-type"]) == (JPEG, "image/jpeg")
    assert results[0]["evidence_url"] is None
    matches = await pages(world, f"/jobs/{job}/matches", "matches")
    assert [(each["product_id"], each["video_id"]) for each in matches] == sorted(scores)
    assert matches[0] == {"product_id": "p", "video_id": "v", "score": 0.7, "best_pair": matches[0]["best_pair"]}


async def test_a_late_write_is_refused_and_changes_nothing(world: MatchingWorld) -> None:
    job = await world.open()
    asset = await add(world, job, image("p"))
    base = f"/jobs/{job}"
    writes = [
        (Phase.COLLECTION, "POST", f"{base}/assets", image("q")),
        (Phase.COLLECTION, "POST", f"{base}/assets", image("p")),
        (Phase.FEATURE_EXTRACTION, "PUT", f"{base}/assets/{asset}/embedding", EMBEDDING),
        (Phase.FEATURE_EXTRACTION, "PUT", f"{base}/assets/{asset}/keypoints", keypoints()),
        (Phase.FEATURE_EXTRACTION, "PUT", f"{base}/assets/{asset}/dead", {"reason": "black"}),
        (Phase.MATCHING, "PUT", f"{base}/matches/p/v", MATCH),
        (Phase.EVIDENCE, "PUT", f"{base}/evidence/p/v", PNG),
    ]

    async def everything() -> list[Any]:
        names = ("assets", "embeddings", "keypoints", "matches", "results")
        return [(await world.client.get(f"{base}/{name}")).json() for name in names]

    async def send(method: str, path: str, body: Any) -> Any:
        sent: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
        return await world.client.request(method, path, **sent)

    phases = list(Phase)
    for phase in phases:
        if phase != Phase.COLLECTION:
            await world.complete(job, *CLOSED_BY[phases[phases.index(phase) - 1]])
        await world.reaches(job, phase)
        for owner, *write in writes:
            if phases.index(phase) <= phases.index(owner) and owner != Phase.COLLECTION:
                assert (await send(*write)).status_code == 204, (phase, write)
        before = await everything()
        for owner, *write in writes:
            if phases.index(phase) > phases.index(owner):
                late = await send(*write)
                assert (late.status_code, late.json()["type"]) == (409, "urn:headrace:problem:conflict"), (phase, write)
        assert await everything() == before
    (result,) = (await world.client.get(f"{base}/results")).json()["results"]
    assert result["evidence_url"] is not None


@pytest.fixture
async def bucket_world(servers: MatchingSettings, s3_bucket: Bucket) -> AsyncIterator[MatchingWorld]:
    keys = {
        "AWS_ACCESS_KEY_ID": s3_bucket.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_bucket.secret_key,
        "AWS_REGION": s3_bucket.region,
    }
    url = f"{s3_bucket.url.rsplit('/', 1)[0]}/matching-made-here"
    async with opened_world(replace(servers, s3_url=url, environment={**servers.environment, **keys})) as world:
        yield world


async def test_blobs_lie_in_a_bucket_that_is_made(bucket_world: MatchingWorld) -> None:
    job = await bucket_world.open()
    asset = (await upload(bucket_world, job, PNG, kind="image", product_id="p")).json()["asset_id"]
    assert (await bucket_world.client.get(f"/assets/{asset}/content")).content == PNG
    assert await put(bucket_world, f"/jobs/{job}/assets/{asset}/keypoints", keypoints()) == 204
    assert len(await pages(bucket_world, f"/jobs/{job}/keypoints", "keypoints")) == 1
    digest = hashlib.sha256(PNG).hexdigest()
    assert await bucket_world.parts.blobs.size(asset_store.content_path(digest)) == len(PNG)
