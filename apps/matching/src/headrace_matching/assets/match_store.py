"""Matches and their evidence."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import headrace
from headrace.blobs import Blobs
from headrace.errors import NotFound
from headrace.http import decode_cursor, encode_cursor, paged
from headrace_matching.assets.asset_store import CONTENT_BYTES_MAX, evidence_path, refuse
from headrace_matching.events.names import Phase
from headrace_matching.phases.transitions import RANKS


@dataclass(frozen=True, slots=True)
class FoundMatch:
    """A product that appears in a video, and the pair of assets that fits best."""

    product_id: str
    video_id: str
    score: float
    img_id: str
    frame_id: str
    score_pair: float


class MatchStore:
    """What a matcher and an evidence builder bring, and what is shown of it."""

    def __init__(self, engine: headrace.Engine, blobs: Blobs) -> None:
        self._engine, self._blobs = engine, blobs

    async def put(self, job: str, match: FoundMatch) -> None:
        """Write a match, or write over it. `Conflict`: matching is closed."""
        rows = await self._engine.run(
            "match_put",
            job=job,
            product=match.product_id,
            video=match.video_id,
            score=match.score,
            img=match.img_id,
            frame=match.frame_id,
            score_pair=match.score_pair,
            rank=RANKS[Phase.MATCHING],
        )
        if not rows:
            await refuse(self._engine, job, Phase.MATCHING)

    async def page(self, job: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """Matches by product and video."""
        await self._known(job)
        product, video = decode_cursor(cursor, str, str) if cursor is not None else ("", "")
        rows = await self._engine.rows(
            "matches_page", job=job, after_product=product, after_video=video, limit=limit + 1
        )
        page, following = paged(rows, limit, lambda row: encode_cursor(row[0], row[1]))
        return {"matches": [shown(row) for row in page], "next": following}

    async def results(self, job: str, limit: int, cursor: str | None) -> tuple[Sequence[Any], str | None]:
        """Rows of matches, best first, with the time in the video and whether there is evidence."""
        await self._known(job)
        score, product, video = math.inf, "", ""
        if cursor is not None:
            score, product, video = decode_cursor(cursor, float, str, str)
        rows = await self._engine.rows(
            "results_page", job=job, score=score, after_product=product, after_video=video, limit=limit + 1
        )
        return paged(rows, limit, lambda row: encode_cursor(row[2], row[0], row[1]))

    async def put_evidence(self, job: str, pair: tuple[str, str], picture: bytes, media_type: str) -> None:
        """The picture of a match. `Conflict`: the phase evidence is closed."""
        await refuse(self._engine, job, Phase.EVIDENCE)
        sha256 = hashlib.sha256(picture).hexdigest()
        await self._blobs.put(evidence_path(sha256), picture)
        product, video = pair
        rows = await self._engine.run(
            "evidence_put",
            job=job,
            product=product,
            video=video,
            sha256=sha256,
            media_type=media_type,
            rank=RANKS[Phase.EVIDENCE],
        )
        if not rows:
            await refuse(self._engine, job, Phase.EVIDENCE)
            raise NotFound(f"job {job} has no match of {product[:200]} in {video[:200]}")

    async def evidence(self, job: str, pair: tuple[str, str]) -> tuple[bytes, str]:
        """The picture of a match, and its media type."""
        product, video = pair
        row = await self._engine.one("evidence", job=job, product=product, video=video)
        if row is None:
            raise NotFound(f"job {job[:200]} has no evidence for {product[:200]} in {video[:200]}")
        return await self._blobs.get(evidence_path(row[0]), CONTENT_BYTES_MAX), str(row[1])

    async def _known(self, job: str) -> None:
        if await self._engine.one("job_standing", job=job) is None:
            raise NotFound(f"there is no job {job[:200]}")


def shown(row: Sequence[Any]) -> dict[str, Any]:
    """A match as it is sent."""
    product, video, score, img, frame, score_pair, *_ = row
    pair = {"img_id": img, "frame_id": frame, "score_pair": score_pair}
    return {"product_id": product, "video_id": video, "score": score, "best_pair": pair}
