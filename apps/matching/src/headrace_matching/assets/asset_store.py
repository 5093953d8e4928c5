"""Assets and their features in tables and blobs.

A write that comes too late is refused by the statement itself, so nothing is changed: blobs are written before, under
the digest of what they hold, and one that nobody refers to harms nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

import headrace
from headrace.blobs import Blobs
from headrace.errors import Conflict, NotFound
from headrace.http import decode_cursor, encode_cursor, paged
from headrace_matching.assets.asset_values import NewAsset, unpack_vector
from headrace_matching.events.names import Phase
from headrace_matching.phases.transitions import RANKS, RUNNING

CONTENT_BYTES_MAX = 64 * 1_048_576
PAGE_BYTES_MAX = 2 * 1_048_576
"""A page of keypoints ends when it holds so much."""


class AssetStore:
    """What workers bring and read of assets."""

    def __init__(self, engine: headrace.Engine, blobs: Blobs) -> None:
        self._engine, self._blobs = engine, blobs

    async def add(self, job: str, asset: NewAsset) -> str:
        """Its id; the same one again for the same content. `Conflict`: collection is closed."""
        asset_id, sha256 = asset.id_in(job), asset.sha256
        await self.check_open(job, Phase.COLLECTION)
        if asset.content is not None and sha256 is not None:
            await self._blobs.put(content_path(sha256), asset.content)
        rows = await self._engine.run(
            "asset_add",
            asset=asset_id,
            job=job,
            kind=asset.kind.value,
            owner=asset.owner_id,
            time_s=asset.time_s,
            sha256=sha256,
            bytes=len(asset.content or b""),
            media_type=asset.media_type,
            url=asset.url,
            dead=asset.dead,
            rank=RANKS[Phase.COLLECTION],
        )
        if not rows:
            await self._refuse(job, Phase.COLLECTION)
        return asset_id

    async def bury(self, job: str, asset: str, reason: str) -> None:
        """Nothing can be done with this asset."""
        rank = RANKS[Phase.FEATURE_EXTRACTION]
        if not await self._engine.run("asset_dead", job=job, asset=asset, reason=reason, rank=rank):
            await self._refuse(job, Phase.FEATURE_EXTRACTION, asset)

    async def page(self, job: str, kind: str, limit: int, cursor: str | None) -> tuple[Sequence[Any], str | None]:
        """Rows of assets: id, kind, owner, time, url, dead."""
        return await self._paged("assets_page", job, kind, limit, cursor)

    async def asset(self, asset: str) -> tuple[Any, ...]:
        """Its row: job, kind, owner, time, sha256, bytes, media type, url, dead."""
        row = await self._engine.one("asset", asset=asset)
        if row is None:
            raise NotFound(f"there is no asset {asset[:200]}")
        return tuple(row)

    async def content(self, sha256: str) -> bytes:
        return await self._blobs.get(content_path(sha256), CONTENT_BYTES_MAX)

    # Features

    async def put_embedding(self, job: str, asset: str, model: str, vector: bytes) -> None:
        rank = RANKS[Phase.FEATURE_EXTRACTION]
        if not await self._engine.run("embedding_put", job=job, asset=asset, model=model, vector=vector, rank=rank):
            await self._refuse(job, Phase.FEATURE_EXTRACTION, asset)

    async def embeddings(self, job: str, kind: str, limit: int, cursor: str | None) -> dict[str, Any]:
        page, following = await self._paged("embeddings_page", job, kind, limit, cursor)
        shown = [
            {"asset_id": asset, "kind": kind, "model": model, "vector": unpack_vector(vector)}
            for asset, kind, model, vector in page
        ]
        return {"embeddings": shown, "next": following}

    async def put_keypoints(self, job: str, asset: str, model: str, document: bytes) -> None:
        """`document` is the JSON with points and descriptors."""
        await self.check_open(job, Phase.FEATURE_EXTRACTION)
        sha256 = hashlib.sha256(document).hexdigest()
        await self._blobs.put(keypoints_path(sha256), document)
        rank = RANKS[Phase.FEATURE_EXTRACTION]
        if not await self._engine.run("keypoints_put", job=job, asset=asset, model=model, sha256=sha256, rank=rank):
            await self._refuse(job, Phase.FEATURE_EXTRACTION, asset)

    async def keypoints(self, job: str, kind: str, limit: int, cursor: str | None) -> bytes:
        """A page as JSON: what lies in blobs is passed on as it is."""
        page, following = await self._paged("keypoints_page", job, kind, limit, cursor)
        shown: list[msgspec.Raw] = []
        size = 0
        for asset, kind, model, sha256 in page:
            kept = await self._blobs.get(keypoints_path(sha256), CONTENT_BYTES_MAX)
            head = msgspec.json.encode({"asset_id": asset, "kind": kind, "model": model})
            shown.append(msgspec.Raw(head[:-1] + b"," + kept[1:]))
            size += len(kept)
            if size > PAGE_BYTES_MAX and len(shown) < len(page):
                following = encode_cursor(asset)
                break
        return msgspec.json.encode({"keypoints": shown, "next": following})

    # What is refused

    async def check_open(self, job: str, phase: Phase) -> None:
        """Before something large is written. It decides nothing: the statement that writes the row does."""
        row = await self._engine.one("job_standing", job=job)
        if row is None or row[0] != RUNNING or row[1] > RANKS[phase]:
            await self._refuse(job, phase)

    async def _refuse(self, job: str, phase: Phase, asset: str = "") -> None:
        """Say why a statement changed nothing."""
        await refuse(self._engine, job, phase)
        raise NotFound(f"job {job} has no asset {asset[:200]}")

    async def _paged(
        self, name: str, job: str, kind: str, limit: int, cursor: str | None
    ) -> tuple[Sequence[Any], str | None]:
        await self._known(job)
        after = decode_cursor(cursor, str)[0] if cursor is not None else ""
        rows = await self._engine.rows(name, job=job, kind=kind, after=after, limit=limit + 1)
        return paged(rows, limit, lambda row: encode_cursor(row[0]))

    async def _known(self, job: str) -> None:
        if await self._engine.one("job_standing", job=job) is None:
            raise NotFound(f"there is no job {job[:200]}")


async def refuse(engine: headrace.Engine, job: str, phase: Phase) -> None:
    """`NotFound` if there is no such job, `Conflict` if it does not run or its phase is closed."""
    row = await engine.one("job_standing", job=job)
    if row is None:
        raise NotFound(f"there is no job {job[:200]}")
    if row[0] != RUNNING:
        raise Conflict(f"the job is {row[0]}: nothing of it changes any more")
    if row[1] > RANKS[phase]:
        raise Conflict(f"the phase {phase.value} of this job is closed")


def content_path(sha256: str) -> str:
    return f"content/{sha256[:2]}/{sha256}"


def keypoints_path(sha256: str) -> str:
    return f"keypoints/{sha256[:2]}/{sha256}"


def evidence_path(sha256: str) -> str:
    return f"evidence/{sha256[:2]}/{sha256}"
