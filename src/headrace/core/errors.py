"""Every error headrace raises, by who must act. Those with a * heal: the same call may be right later.

HeadraceError
├── CallerError          the caller: the request itself is wrong
│   ├── InvalidFlow          the graph or a handler cannot work
│   ├── InvalidPayload       a payload does not fit its type
│   ├── UnknownStage         a stage nobody declared, or that this stage does not feed
│   ├── TooLarge             over a named limit
│   ├── NotFound             no such job, item, dead letter
│   ├── Conflict             it contradicts what was accepted before
│   ├── ClaimLost            somebody else holds the item now
│   └── TransactionEnded     a handler ended a transaction that was not its own
├── OperatorError        the operator: the surroundings are wrong
│   ├── Unreachable *        the store does not answer
│   ├── SchemaMismatch       the store is older or newer than the code
│   ├── UnsafeStore          the store would lose data where it is, or as it is opened
│   │   └── StoreReplaced        the open file was deleted or replaced
│   ├── StoreFull *          no room: nothing was acknowledged
│   ├── ClockSkewed *        this machine's clock is too far from the store's
│   ├── PortTaken            an address that cannot be listened on
│   ├── HandlersHang         too many handlers that do not end
│   └── MissingExtra         a part that is not installed
└── TryAgain *           nobody: the same call again is right
    ├── Unknown *            sent, but the answer was lost: send the same write again
    └── Busy *               the store is occupied
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class HeadraceError(Exception):
    """Base of all. `hint` says what to do about it, as a command where there is one. `heals`: the same call may be
    right later, by itself or when an operator has acted. Who can wait asks this, and keeps no list of classes."""

    heals: ClassVar[bool] = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            # A traceback shows notes, and nothing else of an error but its message.
            self.add_note(f"→ {hint}")


class CallerError(HeadraceError):
    """The request itself is wrong; repeating it changes nothing."""


class InvalidFlow(CallerError):
    """The graph or a handler cannot work."""


class InvalidPayload(CallerError):
    """A payload does not fit its declared type; the message names the field."""


class UnknownStage(CallerError):
    """A stage nobody declared, or one that the sender does not feed."""


class TooLarge(CallerError):
    """Something is over a limit; the message names the limit."""


class NotFound(CallerError):
    """No such job, item or dead letter."""


class Conflict(CallerError):
    """The request contradicts what was accepted before."""


class ClaimLost(CallerError):
    """The fence was revoked: somebody else holds the item now, and nothing was changed."""

    def __init__(self, message: str, fence: int = 0) -> None:
        super().__init__(message)
        self.fence = fence


class TransactionEnded(CallerError):
    """A handler ended the transaction it was given: what it did may stand, and its item is not done."""


class OperatorError(HeadraceError):
    """The surroundings are wrong; an operator must act."""


class Unreachable(OperatorError):
    """The store does not answer."""

    heals = True


class SchemaMismatch(OperatorError):
    """The store's schema is older or newer than the code."""


class UnsafeStore(OperatorError):
    """The store would lose data where it lies, or as it is opened."""


RESTORE = "stop everything that has it open, put the right file back together with its -wal, and start again"


class StoreReplaced(UnsafeStore):
    """The store's file was deleted or replaced while it was open. A class of its own, because a process that starts
    again would find another store, or make an empty one: nothing may be started again before somebody has looked."""


class StoreFull(OperatorError):
    """There is no room; nothing was acknowledged."""

    heals = True


class ClockSkewed(OperatorError):
    """This machine's clock differs too much from that of a store that judges by its clients' clocks."""

    heals = True


class PortTaken(OperatorError):
    """An address that cannot be listened on."""


class HandlersHang(OperatorError):
    """Too many handlers in threads did not end after their timeout: a new process is needed."""


class MissingExtra(OperatorError):
    """A part that is not installed; the hint is the install line."""


class TryAgain(HeadraceError):
    """The same call again is right."""

    heals = True


class Unknown(TryAgain):
    """The write was sent and its answer was lost: only the same write again can tell."""


class Busy(TryAgain):
    """The store is occupied."""


@contextmanager
def suppress_healing() -> Iterator[None]:
    """Leave undone what fails with an error that heals: somebody does it later."""
    try:
        yield
    except HeadraceError as error:
        if not error.heals:
            raise


@contextmanager
def writing_to(path: object, hint: str) -> Iterator[None]:
    """What cannot be written in this block is `OperatorError`, which names the file or directory and says what to do:
    `with writing_to(file, "name another file by --to")`."""
    try:
        yield
    except OSError as error:
        raise OperatorError(f"{path} cannot be written: {error.strerror or error}", hint) from None
