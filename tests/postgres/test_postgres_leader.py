"""One leader at a time on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgres_databases import TEMPLATE

from headrace.testing.contracts import LeaderContract
from headrace.testing.rig.postgres import PostgresServer


class TestPostgresLeader(LeaderContract):
    @pytest.fixture
    def url(self, postgres: PostgresServer) -> Iterator[str]:
        with postgres.database(TEMPLATE) as url:
            yield url
