"""What stands beside the account in the same store, for services that work by events."""

from __future__ import annotations

from typing import Protocol

from headrace.ports.backend import Backend
from headrace.ports.bus import Bus, BusOperations
from headrace.ports.leases import Leases
from headrace.ports.ledger import Ledger
from headrace.ports.outbox import Inbox, Outbox
from headrace.ports.schedules import Schedules
from headrace.ports.tables import Tables


class StoreBus(Bus, BusOperations, Protocol):
    """A bus inside a store, with what operators do to it."""


class Parts(Backend, Protocol):
    """An account with its outbox and inbox, a bus, a ledger, leases, schedules and an application's tables, all in one
    place: what one transaction may hold together."""

    @property
    def outbox(self) -> Outbox: ...

    @property
    def inbox(self) -> Inbox: ...

    @property
    def bus(self) -> StoreBus: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def schedules(self) -> Schedules: ...

    @property
    def tables(self) -> Tables: ...
