"""The whole contracts of the store on PostgreSQL 15. Not one of `./test`, whose part is in test_postgres15.py."""

from __future__ import annotations

import test_postgres_choreography as choreography
import test_postgres_contracts as contracts
from test_postgres15 import On15


class TestTheWholeStoreOn15(On15, contracts.TestPostgresStore):
    pass


class TestTheWholeChoreographyOn15(On15, choreography.TestPostgresChoreography):
    pass
