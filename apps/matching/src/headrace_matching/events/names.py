"""The names of the events, and which of them close which phase.

A barrier is a set of names per job. `.completed` events alone move a phase; `.ready` events feed tallies, and a
`match.result` is for whoever wants to know early.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

EXCHANGE = "matching.events"
DEAD_QUEUE = "matching.dead"
REASON = "reason"
"""The header of a dead letter that says why it is one."""

PRODUCTS_COLLECTED = "products.collections.completed"
VIDEOS_COLLECTED = "videos.collections.completed"
IMAGE_EMBEDDINGS = "image.embeddings.completed"
IMAGE_KEYPOINTS = "image.keypoints.completed"
VIDEO_EMBEDDINGS = "video.embeddings.completed"
VIDEO_KEYPOINTS = "video.keypoints.completed"
MATCHINGS_PROCESSED = "matchings.process.completed"
EVIDENCES_GENERATED = "evidences.generation.completed"
IMAGE_EMBEDDING_READY = "image.embedding.ready"
IMAGE_KEYPOINT_READY = "image.keypoint.ready"
VIDEO_EMBEDDING_READY = "video.embedding.ready"
VIDEO_KEYPOINT_READY = "video.keypoint.ready"
MATCH_RESULT = "match.result"
PHASE_ENTERED = "job.phase.entered"


class Phase(StrEnum):
    """The phases of a job, in their order."""

    COLLECTION = "collection"
    FEATURE_EXTRACTION = "feature_extraction"
    MATCHING = "matching"
    EVIDENCE = "evidence"
    COMPLETED = "completed"


class AssetKind(StrEnum):
    """What is compared: images of products, and keyframes of videos."""

    IMAGE = "image"
    KEYFRAME = "keyframe"


@dataclass(frozen=True, slots=True)
class ReadyMeaning:
    """What a `.ready` event says of its asset."""

    kind: AssetKind
    feature: str


CLOSED_BY: Mapping[Phase, tuple[str, ...]] = {
    Phase.COLLECTION: (PRODUCTS_COLLECTED, VIDEOS_COLLECTED),
    Phase.FEATURE_EXTRACTION: (IMAGE_EMBEDDINGS, VIDEO_EMBEDDINGS, IMAGE_KEYPOINTS, VIDEO_KEYPOINTS),
    Phase.MATCHING: (MATCHINGS_PROCESSED,),
    Phase.EVIDENCE: (EVIDENCES_GENERATED,),
}
"""The events that a phase waits for; the next one is entered when all of them have come."""

READY: Mapping[str, ReadyMeaning] = {
    IMAGE_EMBEDDING_READY: ReadyMeaning(AssetKind.IMAGE, "embedding"),
    IMAGE_KEYPOINT_READY: ReadyMeaning(AssetKind.IMAGE, "keypoint"),
    VIDEO_EMBEDDING_READY: ReadyMeaning(AssetKind.KEYFRAME, "embedding"),
    VIDEO_KEYPOINT_READY: ReadyMeaning(AssetKind.KEYFRAME, "keypoint"),
}
COMPLETED = frozenset(name for names in CLOSED_BY.values() for name in names)
NAMES = (*sorted(COMPLETED), *READY, MATCH_RESULT, PHASE_ENTERED)
