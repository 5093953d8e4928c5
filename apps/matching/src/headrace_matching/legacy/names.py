"""The old names, and what took their place: this module, the changelog and tests of both are the only places."""

from __future__ import annotations

from collections.abc import Mapping

REPLACED: Mapping[str, str] = {
    "features.extraction.completed": "the four events *.embeddings.completed and *.keypoints.completed",
    "match.result.enriched": "match.result",
}
"""Old event → what is published instead."""


def refusal(name: str) -> str:
    """Why an event of this name is refused; empty if the name is not an old one."""
    instead = REPLACED.get(name)
    return f"{name} is gone: publish {instead}" if instead else ""
