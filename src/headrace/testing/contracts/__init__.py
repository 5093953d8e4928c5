"""One contract per port. An adapter inherits it and brings its store.

    class TestMyStore(StoreContract, OperationsContract, InspectorContract):
        @pytest.fixture
        async def store(self) -> AsyncIterator[Backend]: ...

        @pytest.fixture
        def passage(self) -> Passage: ...

`passage` lets the store's time pass. A store that serves many processes also brings `handles`: several
handles on the same store, for the tests in which many hands work at once. Needs pytest-asyncio in auto mode;
`pytest.register_assert_rewrite("headrace.testing.contracts")` in a conftest makes failures show their values.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.ports.backend import Backend
from headrace.testing.contracts.bench import Bench
from headrace.testing.contracts.blobs import BlobsContract
from headrace.testing.contracts.blocking_tables import BlockingTablesContract
from headrace.testing.contracts.bus import BusContract
from headrace.testing.contracts.cancellations import CancellingContract
from headrace.testing.contracts.claims import ClaimingContract
from headrace.testing.contracts.concurrency import ConcurringContract
from headrace.testing.contracts.consumer import ConsumerContract
from headrace.testing.contracts.decisions import DecisionsContract
from headrace.testing.contracts.early_stops import StoppingContract
from headrace.testing.contracts.finish_line import ClosingContract
from headrace.testing.contracts.generations import GenerationsContract
from headrace.testing.contracts.inspector import InspectingContract
from headrace.testing.contracts.leader import LeaderContract
from headrace.testing.contracts.leases import LeasesContract
from headrace.testing.contracts.ledger import LedgerContract
from headrace.testing.contracts.locks import LockClientContract
from headrace.testing.contracts.lost_claims import LosingContract
from headrace.testing.contracts.open_transactions import OpeningContract
from headrace.testing.contracts.outbox import OutboxContract
from headrace.testing.contracts.random_walk import WanderingContract
from headrace.testing.contracts.recorded_statements import RecordingContract
from headrace.testing.contracts.redriven_items import RevivingContract
from headrace.testing.contracts.redrives import RedrivingContract
from headrace.testing.contracts.schedules import (
    DeclaringContract,
    FiringContract,
    OverlapContract,
    SteeringContract,
)
from headrace.testing.contracts.sends import SendingContract
from headrace.testing.contracts.settlements import GivingBackContract, SettlingContract
from headrace.testing.contracts.sinks import EffectsContract, OnceContract, PutContract, RevokeContract
from headrace.testing.contracts.source import SourceContract
from headrace.testing.contracts.submissions import SubmittingContract
from headrace.testing.contracts.supply import SourceSupply, SuppliedItem
from headrace.testing.contracts.tables import TablesContract
from headrace.testing.passage import Passage


class Benched:
    """Sets up the bench that the tests of every contract work at."""

    @pytest.fixture
    def bench(self, store: Backend, passage: Passage) -> Bench:
        return Bench(store, passage)

    @pytest.fixture
    async def handles(self, store: Backend) -> Sequence[Backend]:
        return [store]


class StoreContract(
    SubmittingContract,
    ClaimingContract,
    SettlingContract,
    GivingBackContract,
    LosingContract,
    ClosingContract,
    SendingContract,
    DecisionsContract,
    ConcurringContract,
    Benched,
):
    """`ports.store.Store`: submit, send, claim, settle, renew, sweep."""


class TransactionContract(RecordingContract, Benched):
    """Transactional stages: `Settlement.statements` and `Claim.revokes` of `ports.store.Store`."""


class OpenTransactionContract(OpeningContract, Benched):
    """`ports.transactions.OpenTransactions`: begin, resolve, revoke."""


class SinkContract(OnceContract, PutContract, RevokeContract, EffectsContract):
    """`ports.sink.Sink`: once, put, revoke, effects."""


class SchedulesContract(FiringContract, OverlapContract, SteeringContract, DeclaringContract):
    """`ports.schedules.Schedules`: declare, add, remove, pause, run, due, fire, look."""


class OperationsContract(
    CancellingContract,
    StoppingContract,
    RedrivingContract,
    RevivingContract,
    GenerationsContract,
    WanderingContract,
    Benched,
):
    """`ports.operations.Operations`: cancel, pause, redrive, purge, external events, retention."""


class InspectorContract(InspectingContract, Benched):
    """`ports.inspector.Inspector`: reads for people."""


__all__ = [
    "Bench",
    "BlobsContract",
    "BlockingTablesContract",
    "BusContract",
    "ConsumerContract",
    "InspectorContract",
    "LeaderContract",
    "LeasesContract",
    "LedgerContract",
    "LockClientContract",
    "OpenTransactionContract",
    "OperationsContract",
    "OutboxContract",
    "SchedulesContract",
    "SinkContract",
    "SourceContract",
    "SourceSupply",
    "StoreContract",
    "SuppliedItem",
    "TablesContract",
    "TransactionContract",
]
