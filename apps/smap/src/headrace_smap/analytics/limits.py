"""What only the analytics service can be told, with a limit on everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.services import Sources, read, setting
from headrace_smap.settings import PREFIX


@dataclass(frozen=True, slots=True)
class AnalyticsLimits:
    """Settings of the analytics service."""

    post_bytes_max: int = setting(20_000_000, "most bytes of a post", low=1, high=1_000_000_000)
    post_s_max: float = setting(30.0, "most seconds that the modules have for one post", low=0.1, high=3_600)
    analysts: int = setting(1, "processes that run the modules (0: a thread)", low=0, high=256)
    fetches: int = setting(64, "posts read at a time from S3 by one process", low=1, high=1_000)

    @staticmethod
    def read(environment: Mapping[str, str]) -> AnalyticsLimits:
        return read(AnalyticsLimits, Sources(PREFIX, environment))
