"""Tables of an application on MariaDB keep the contract: by the bulk command, and by text as on a MySQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

import pytest
from mysql_handles import Handle, handle_on, shelf_on
from table_twins import TWINS, BrokenStore

from headrace.adapters.mysql.tables import MysqlTables
from headrace.ports.tables import TableFeatures
from headrace.runtime.open_tables import OpenTables
from headrace.testing.contracts import TablesContract
from headrace.testing.contracts.shelf import tables_on
from headrace.testing.twins import turns_red

HANDLES = 3
NEEDS_AN_ACCOUNT = {
    "an event outside of the commit",
    "a job outside of the commit",
    "an external stage closed outside of the commit",
}


class OnMariaDb:
    """Several handles on one fresh database, as the contract wants them."""

    bulk: ClassVar[bool] = True

    @pytest.fixture
    async def store(self, handles: Sequence[Handle]) -> Handle:
        return handles[0]

    @pytest.fixture
    async def handles(self, mariadb_database: str) -> AsyncIterator[Sequence[Handle]]:
        handles = [handle_on(mariadb_database, bulk=self.bulk, lanes=4) for _ in range(HANDLES)]
        yield handles
        for handle in handles:
            handle.tables.close()

    @pytest.fixture
    async def engine(self, store: Handle) -> OpenTables:
        return await shelf_on(store.tables)


class TestMysqlTables(OnMariaDb, TablesContract):
    table_features: ClassVar[TableFeatures] = MysqlTables.features


class TestMysqlTablesByText(OnMariaDb):
    """Batches where the server has no bulk command, as a MySQL: everything else goes as text anyway."""

    bulk: ClassVar[bool] = False
    test_a_batch_is_whole_or_not_at_all = TablesContract.test_a_batch_is_whole_or_not_at_all
    test_columns_are_as_many_rows = TablesContract.test_columns_are_as_many_rows


@pytest.mark.parametrize("bug", sorted(TWINS.keys() - NEEDS_AN_ACCOUNT))
async def test_a_broken_twin_is_noticed(mariadb_database: str, bug: str) -> None:
    handle, twin = handle_on(mariadb_database, lanes=1), TWINS[bug]
    await shelf_on(handle.tables)
    await turns_red(twin.noticed_by, engine=tables_on(BrokenStore(handle, twin.apply).tables))
    handle.tables.close()
