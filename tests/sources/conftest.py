"""A source in memory and its workers, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from source_bench import SourceBench


@pytest.fixture
def bench() -> Iterator[SourceBench]:
    bench = SourceBench()
    yield bench
    bench.close()
