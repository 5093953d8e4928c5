"""A small service on the kit, and clients for it."""

from __future__ import annotations

import pytest
from http_sample import Sample


@pytest.fixture
def sample() -> Sample:
    return Sample()
