"""What only the analytics service can be told, with a limit on everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace_smap.settings import number

POST_BYTES_MAX = 20_000_000
POST_S_MAX = 30.0
ANALYSTS = 1
FETCHES = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """`fetches` blobs are read at a time. `analysts` child processes do the computing; none: a thread does."""

    post_bytes_max: int = POST_BYTES_MAX
    post_s_max: float = POST_S_MAX
    analysts: int = ANALYSTS
    fetches: int = FETCHES

    @staticmethod
    def read(environment: Mapping[str, str]) -> Limits:
        """SMAP_POST_BYTES_MAX, SMAP_POST_S_MAX, SMAP_ANALYSTS and SMAP_FETCHES."""
        return Limits(
            post_bytes_max=number(environment, "SMAP_POST_BYTES_MAX", int, POST_BYTES_MAX, 1, 1_000_000_000),
            post_s_max=number(environment, "SMAP_POST_S_MAX", float, POST_S_MAX, 0.1, 3_600),
            analysts=number(environment, "SMAP_ANALYSTS", int, ANALYSTS, 0, 256),
            fetches=number(environment, "SMAP_FETCHES", int, FETCHES, 1, 1_000),
        )
