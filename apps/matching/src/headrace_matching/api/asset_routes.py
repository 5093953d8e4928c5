"""What workers bring and read: the data contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from fastapi import Path as PathPart
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from headrace.http import PAGE_DEFAULT, Problem
from headrace_matching.api.desk import ApiDesk
from headrace_matching.api.job_routes import Cursor, JobId, Limit
from headrace_matching.api.uploads import ID, read_upload
from headrace_matching.assets.asset_values import (
    OCTETS,
    BadFeature,
    Descriptors,
    check_keypoints,
    pack_vector,
)
from headrace_matching.assets.match_store import FoundMatch
from headrace_matching.events.names import AssetKind

FEATURES_PAGE_MAX = 100
PICTURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
"""What evidence may be, by how it begins."""
# What somebody uploaded is shown as what it is, and a browser runs nothing of it.
_HARMLESS = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox; default-src 'none'"}
AssetId = Annotated[str, PathPart(max_length=200)]
OwnerPart = Annotated[str, PathPart(min_length=1, max_length=200, pattern=ID)]
Kind = Annotated[AssetKind | None, Query()]
FeatureLimit = Annotated[int, Query(ge=1, le=FEATURES_PAGE_MAX)]
Model = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]
Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class EmbeddingBody(_Body):
    model: Model
    vector: list[float]


class DescriptorsBody(_Body):
    dtype: str
    shape: list[int]
    base64: str


class KeypointsBody(_Body):
    model: Model
    points: list[list[float]]
    descriptors: DescriptorsBody


class DeadBody(_Body):
    reason: Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"^[^\x00]+$")]


class BestPairBody(_Body):
    img_id: Text
    frame_id: Text
    score_pair: float


class MatchBody(_Body):
    score: float
    best_pair: BestPairBody


def asset_routes(desk: ApiDesk) -> list[APIRouter]:
    return [_assets(desk), _features(desk), _matches(desk), _evidence(desk)]


def _assets(desk: ApiDesk) -> APIRouter:
    router = APIRouter(tags=["assets"])

    @router.get("/jobs/{job_id}/assets")
    async def listed(
        job_id: JobId, request: Request, kind: Kind = None, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None
    ) -> Any:
        """The assets of a job, a page at a time."""
        rows, following = await desk.assets.page(job_id, kind or "", limit, cursor)
        base = str(request.base_url).rstrip("/")
        return {"assets": [_asset(row, base) for row in rows], "next": following}

    @router.post("/jobs/{job_id}/assets", status_code=201)
    async def add(job_id: JobId, request: Request) -> Response:
        """Add an image or a keyframe while the job collects: JSON with its `url`, or a form with a `file`. The same
        content again has the same id."""
        return JSONResponse({"asset_id": await desk.assets.add(job_id, await read_upload(request))}, 201)

    @router.get("/assets/{asset_id}/content")
    async def content(asset_id: AssetId) -> Response:
        """The bytes of an asset; those that lie elsewhere are found there."""
        _, _, _, _, sha256, _, media_type, url, _ = await desk.assets.asset(asset_id)
        if url is not None:
            return RedirectResponse(url, 307)
        if sha256 is None:
            raise Problem(404, "not-found", "this asset is dead, and has no content")
        kept = {**_HARMLESS, "ETag": f'"{sha256}"', "Cache-Control": "private, max-age=31536000, immutable"}
        return Response(await desk.assets.content(sha256), 200, kept, media_type or OCTETS)

    @router.put("/jobs/{job_id}/assets/{asset_id}/dead", status_code=204)
    async def bury(job_id: JobId, asset_id: AssetId, body: DeadBody) -> Response:
        """Say that nothing can be done with an asset, and why."""
        await desk.assets.bury(job_id, asset_id, body.reason)
        return Response(status_code=204)

    return router


def _features(desk: ApiDesk) -> APIRouter:
    router = APIRouter(tags=["features"])

    @router.put("/jobs/{job_id}/assets/{asset_id}/embedding", status_code=204)
    async def put_embedding(job_id: JobId, asset_id: AssetId, body: EmbeddingBody) -> Response:
        """The embedding of an asset; only vectors of one model are compared."""
        with _refused():
            vector = pack_vector(body.vector)
        await desk.assets.put_embedding(job_id, asset_id, body.model, vector)
        return Response(status_code=204)

    @router.get("/jobs/{job_id}/embeddings")
    async def embeddings(job_id: JobId, kind: Kind = None, limit: FeatureLimit = 50, cursor: Cursor = None) -> Response:
        """Embeddings of a job with the fields of the PUT, a page at a time."""
        page = await desk.assets.embeddings(job_id, kind or "", limit, cursor)
        return _json(msgspec.json.encode(page))

    @router.put("/jobs/{job_id}/assets/{asset_id}/keypoints", status_code=204)
    async def put_keypoints(job_id: JobId, asset_id: AssetId, body: KeypointsBody) -> Response:
        """The keypoints of an asset: descriptors row-major and little-endian, a row for each point."""
        sent = body.descriptors
        with _refused():
            check_keypoints(body.points, Descriptors(sent.dtype, tuple(sent.shape), sent.base64))
        document = msgspec.json.encode({"points": body.points, "descriptors": sent.model_dump()})
        await desk.assets.put_keypoints(job_id, asset_id, body.model, document)
        return Response(status_code=204)

    @router.get("/jobs/{job_id}/keypoints")
    async def keypoints(job_id: JobId, kind: Kind = None, limit: FeatureLimit = 50, cursor: Cursor = None) -> Response:
        """Keypoints of a job with the fields of the PUT; a page ends earlier if it grows large."""
        return _json(await desk.assets.keypoints(job_id, kind or "", limit, cursor))

    return router


def _matches(desk: ApiDesk) -> APIRouter:
    router = APIRouter(tags=["matches"])

    @router.put("/jobs/{job_id}/matches/{product_id}/{video_id}", status_code=204)
    async def put_match(job_id: JobId, product_id: OwnerPart, video_id: OwnerPart, body: MatchBody) -> Response:
        """A product appears in a video."""
        pair = body.best_pair
        match = FoundMatch(product_id, video_id, body.score, pair.img_id, pair.frame_id, pair.score_pair)
        await desk.matches.put(job_id, match)
        return Response(status_code=204)

    @router.get("/jobs/{job_id}/matches")
    async def matches(job_id: JobId, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None) -> Any:
        """Matches of a job with the fields of the PUT, by product and video."""
        return await desk.matches.page(job_id, limit, cursor)

    return router


def _evidence(desk: ApiDesk) -> APIRouter:
    router = APIRouter(tags=["evidence"])

    @router.put("/jobs/{job_id}/evidence/{product_id}/{video_id}", status_code=204)
    async def put_evidence(job_id: JobId, product_id: OwnerPart, video_id: OwnerPart, request: Request) -> Response:
        """The picture that shows a match, PNG or JPEG."""
        picture = await request.body()
        media_type = next((kind for begin, kind in PICTURES.items() if picture.startswith(begin)), None)
        if media_type is None:
            raise Problem(422, "invalid", "the body is neither a PNG nor a JPEG")
        await desk.matches.put_evidence(job_id, (product_id, video_id), picture, media_type)
        return Response(status_code=204)

    @router.get("/jobs/{job_id}/evidence/{product_id}/{video_id}")
    async def evidence(job_id: JobId, product_id: OwnerPart, video_id: OwnerPart) -> Response:
        picture, media_type = await desk.matches.evidence(job_id, (product_id, video_id))
        return Response(picture, 200, _HARMLESS, media_type)

    return router


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except BadFeature as error:
        raise Problem(422, "invalid", str(error)) from None


def _asset(row: Any, base: str) -> dict[str, Any]:
    asset_id, kind, owner_id, time_s, url, dead = row
    owner = "product_id" if kind == AssetKind.IMAGE else "video_id"
    content = url or f"{base}/assets/{asset_id}/content"
    shown = {"asset_id": asset_id, "kind": kind, owner: owner_id, "time_s": time_s, "content_url": content}
    return {**shown, "dead": dead} if dead is not None else shown


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")
