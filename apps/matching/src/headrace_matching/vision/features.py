"""What is known of one asset when it is matched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import CallerError
from headrace_matching.vision.keypoints import Keypoints


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector, and the model that made it."""

    model: str
    vector: NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.vector.ndim != 1 or not len(self.vector) or not np.isfinite(self.vector).all():
            raise CallerError(f"an embedding is a list of finite numbers, this one has the shape {self.vector.shape}")


@dataclass(frozen=True, slots=True)
class AssetFeatures:
    """A picture of a product or a keyframe of a video (`owner_id`). A part in which the asset died is missing."""

    asset_id: str
    owner_id: str
    embedding: Embedding | None
    keypoints: Keypoints | None
