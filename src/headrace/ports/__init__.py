"""The seams of headrace, and the values that pass through them.

    from headrace.ports import Bus, Consequence, Delivery, Event, Subscription

A port is a Protocol whose docstring is its contract; an adapter of one's own passes the suite of the same name in
`headrace.testing.contracts`. Applications take every name they use from `headrace` and from here. Names are loaded when
they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.core.audit import ChunkRow as ChunkRow
    from headrace.core.audit import ClaimRow as ClaimRow
    from headrace.core.audit import DeadRow as DeadRow
    from headrace.core.audit import JobAudit as JobAudit
    from headrace.core.audit import StageRow as StageRow
    from headrace.core.claims import Again as Again
    from headrace.core.claims import Claim as Claim
    from headrace.core.claims import Grant as Grant
    from headrace.core.claims import Loss as Loss
    from headrace.core.claims import Renewed as Renewed
    from headrace.core.claims import Settled as Settled
    from headrace.core.claims import Settlement as Settlement
    from headrace.core.claims import Statement as Statement
    from headrace.core.claims import Swept as Swept
    from headrace.core.claims import Want as Want
    from headrace.core.consequences import Consequence as Consequence
    from headrace.core.consequences import Consumed as Consumed
    from headrace.core.deliveries import Backlog as Backlog
    from headrace.core.deliveries import DeadLetter as DeadLetter
    from headrace.core.deliveries import Delivery as Delivery
    from headrace.core.deliveries import Received as Received
    from headrace.core.deliveries import Subscription as Subscription
    from headrace.core.errors import Busy as Busy
    from headrace.core.errors import ClaimLost as ClaimLost
    from headrace.core.errors import InvalidFlow as InvalidFlow
    from headrace.core.errors import MissingExtra as MissingExtra
    from headrace.core.errors import SchemaMismatch as SchemaMismatch
    from headrace.core.errors import StoreFull as StoreFull
    from headrace.core.errors import TooLarge as TooLarge
    from headrace.core.errors import TransactionEnded as TransactionEnded
    from headrace.core.errors import Unknown as Unknown
    from headrace.core.errors import UnknownStage as UnknownStage
    from headrace.core.errors import Unreachable as Unreachable
    from headrace.core.errors import UnsafeStore as UnsafeStore
    from headrace.core.events import Batch as Batch
    from headrace.core.events import Event as Event
    from headrace.core.events import Lag as Lag
    from headrace.core.graph import Graph as Graph
    from headrace.core.graph import Kind as Kind
    from headrace.core.graph import StageSpec as StageSpec
    from headrace.core.jobs import DeadFilter as DeadFilter
    from headrace.core.jobs import DeadView as DeadView
    from headrace.core.jobs import FinishView as FinishView
    from headrace.core.jobs import ItemView as ItemView
    from headrace.core.jobs import JobFilter as JobFilter
    from headrace.core.jobs import JobView as JobView
    from headrace.core.jobs import Submission as Submission
    from headrace.core.jobs import Submitted as Submitted
    from headrace.core.jobs import WorkerView as WorkerView
    from headrace.core.leases import Lease as Lease
    from headrace.core.leases import Leased as Leased
    from headrace.core.leases import LeaseOperation as LeaseOperation
    from headrace.core.leases import LeaseOutcome as LeaseOutcome
    from headrace.core.leases import LeaseVerb as LeaseVerb
    from headrace.core.ledgers import Account as Account
    from headrace.core.ledgers import AccountTally as AccountTally
    from headrace.core.ledgers import Entry as Entry
    from headrace.core.ledgers import Expect as Expect
    from headrace.core.ledgers import Posted as Posted
    from headrace.core.ledgers import Seal as Seal
    from headrace.core.ledgers import Settle as Settle
    from headrace.core.parcels import Parcel as Parcel
    from headrace.core.schedules import Due as Due
    from headrace.core.schedules import DueSchedule as DueSchedule
    from headrace.core.schedules import Fire as Fire
    from headrace.core.schedules import FireOutcome as FireOutcome
    from headrace.core.schedules import FireView as FireView
    from headrace.core.schedules import Firing as Firing
    from headrace.core.schedules import Misfire as Misfire
    from headrace.core.schedules import Origin as Origin
    from headrace.core.schedules import Overlap as Overlap
    from headrace.core.schedules import Schedule as Schedule
    from headrace.core.schedules import ScheduleView as ScheduleView
    from headrace.core.sources import HeldItem as HeldItem
    from headrace.core.sources import ItemCandidate as ItemCandidate
    from headrace.core.sources import ItemSettlement as ItemSettlement
    from headrace.core.sources import ItemState as ItemState
    from headrace.core.sources import Polled as Polled
    from headrace.core.table_statements import Step as Step
    from headrace.core.table_statements import TableMigration as TableMigration
    from headrace.core.table_statements import TablePart as TablePart
    from headrace.core.table_statements import TableStatement as TableStatement
    from headrace.core.tally import JobState as JobState
    from headrace.core.tally import Tally as Tally
    from headrace.core.tally import Tolerance as Tolerance
    from headrace.core.units import ExternalEvent as ExternalEvent
    from headrace.core.units import StepDone as StepDone
    from headrace.core.units import Unit as Unit
    from headrace.core.units import UnitDone as UnitDone
    from headrace.ports.backend import Backend as Backend
    from headrace.ports.blocking_tables import BlockingTables as BlockingTables
    from headrace.ports.bus import Bus as Bus
    from headrace.ports.bus import BusFeatures as BusFeatures
    from headrace.ports.bus import BusOperations as BusOperations
    from headrace.ports.bus import EventPublisher as EventPublisher
    from headrace.ports.bus import QueueBus as QueueBus
    from headrace.ports.inspector import Inspector as Inspector
    from headrace.ports.leases import LeaseFeatures as LeaseFeatures
    from headrace.ports.leases import Leases as Leases
    from headrace.ports.ledger import Ledger as Ledger
    from headrace.ports.operations import Operations as Operations
    from headrace.ports.outbox import Inbox as Inbox
    from headrace.ports.outbox import Outbox as Outbox
    from headrace.ports.parts import Parts as Parts
    from headrace.ports.parts import StoreBus as StoreBus
    from headrace.ports.schedules import ScheduledStore as ScheduledStore
    from headrace.ports.schedules import Schedules as Schedules
    from headrace.ports.seams import Beat as Beat
    from headrace.ports.seams import Chance as Chance
    from headrace.ports.seams import Clock as Clock
    from headrace.ports.seams import Identity as Identity
    from headrace.ports.seams import Threads as Threads
    from headrace.ports.sink import Applied as Applied
    from headrace.ports.sink import Change as Change
    from headrace.ports.sink import Effect as Effect
    from headrace.ports.sink import EffectView as EffectView
    from headrace.ports.sink import Sink as Sink
    from headrace.ports.source import Source as Source
    from headrace.ports.source import SourceFeatures as SourceFeatures
    from headrace.ports.store import Features as Features
    from headrace.ports.store import Store as Store
    from headrace.ports.tables import TableFeatures as TableFeatures
    from headrace.ports.tables import Tables as Tables
    from headrace.ports.transactions import OpenTransaction as OpenTransaction
    from headrace.ports.transactions import OpenTransactions as OpenTransactions
    from headrace.ports.transactions import Terms as Terms

_NAMES = {
    "headrace.ports.backend": ("Backend",),
    "headrace.ports.blocking_tables": ("BlockingTables",),
    "headrace.ports.bus": ("Bus", "BusFeatures", "BusOperations", "EventPublisher", "QueueBus"),
    "headrace.ports.inspector": ("Inspector",),
    "headrace.ports.leases": ("Leases", "LeaseFeatures"),
    "headrace.ports.ledger": ("Ledger",),
    "headrace.ports.operations": ("Operations",),
    "headrace.ports.outbox": ("Inbox", "Outbox"),
    "headrace.ports.parts": ("Parts", "StoreBus"),
    "headrace.ports.schedules": ("ScheduledStore", "Schedules"),
    "headrace.ports.seams": ("Beat", "Chance", "Clock", "Identity", "Threads"),
    "headrace.ports.sink": ("Sink", "Applied", "Change", "Effect", "EffectView"),
    "headrace.ports.source": ("Source", "SourceFeatures"),
    "headrace.ports.store": ("Store", "Features"),
    "headrace.ports.tables": ("TableFeatures", "Tables"),
    "headrace.ports.transactions": ("OpenTransaction", "OpenTransactions", "Terms"),
    "headrace.core.audit": ("ChunkRow", "ClaimRow", "DeadRow", "JobAudit", "StageRow"),
    "headrace.core.claims": (
        "Again",
        "Claim",
        "Grant",
        "Loss",
        "Renewed",
        "Settled",
        "Settlement",
        "Statement",
        "Swept",
        "Want",
    ),
    "headrace.core.consequences": ("Consequence", "Consumed"),
    "headrace.core.deliveries": ("Backlog", "DeadLetter", "Delivery", "Received", "Subscription"),
    "headrace.core.errors": (
        "Busy",
        "ClaimLost",
        "InvalidFlow",
        "MissingExtra",
        "SchemaMismatch",
        "StoreFull",
        "TooLarge",
        "TransactionEnded",
        "Unknown",
        "UnknownStage",
        "Unreachable",
        "UnsafeStore",
    ),
    "headrace.core.events": ("Batch", "Event", "Lag"),
    "headrace.core.graph": ("Graph", "Kind", "StageSpec"),
    "headrace.core.jobs": (
        "DeadFilter",
        "DeadView",
        "FinishView",
        "ItemView",
        "JobFilter",
        "JobView",
        "Submission",
        "Submitted",
        "WorkerView",
    ),
    "headrace.core.leases": ("Lease", "Leased", "LeaseOperation", "LeaseOutcome", "LeaseVerb"),
    "headrace.core.ledgers": ("Account", "AccountTally", "Entry", "Expect", "Posted", "Seal", "Settle"),
    "headrace.core.parcels": ("Parcel",),
    "headrace.core.schedules": (
        "Due",
        "DueSchedule",
        "Fire",
        "FireOutcome",
        "FireView",
        "Firing",
        "Misfire",
        "Origin",
        "Overlap",
        "Schedule",
        "ScheduleView",
    ),
    "headrace.core.sources": ("HeldItem", "ItemCandidate", "ItemSettlement", "ItemState", "Polled"),
    "headrace.core.tally": ("JobState", "Tally", "Tolerance"),
    "headrace.core.table_statements": ("Step", "TableMigration", "TablePart", "TableStatement"),
    "headrace.core.units": ("ExternalEvent", "StepDone", "Unit", "UnitDone"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace.ports' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
