"""Transactions of one store, for what lives beside the account in the same file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from headrace.adapters.sqlite.transaction import Transaction

T = TypeVar("T")


class Transact(Protocol):
    async def __call__(self, work: Callable[[Transaction], T], /) -> T:
        """Run `work` in a transaction of its own; the answer comes after its end."""


@dataclass(frozen=True, slots=True)
class Transactions:
    """`write` commits, and rings if work became available; `read` sees one snapshot."""

    write: Transact
    read: Transact
    on_wake: Callable[[Callable[[], None]], Callable[[], None]]
