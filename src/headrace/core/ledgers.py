"""What passes between choreographed services and the ledger they share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.core.errors import CallerError, Conflict, NotFound, TooLarge
from headrace.core.events import Event, check_event
from headrace.core.parcels import KEY_CHARS_MAX

FINISHED_TOPIC = "ledger.finished"
ENTRIES_MAX = 10_000
_ID_SUFFIX = ".finished"


@dataclass(frozen=True, slots=True)
class Account:
    """One count that several services share, by a name that holds the tenant: `acme/project-7`.

    At its finish line the event `<name>.finished` is committed for `topic`, with `headers`.
    """

    name: str
    topic: str = FINISHED_TOPIC
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name or len(self.name) + len(_ID_SUFFIX) > KEY_CHARS_MAX:
            raise CallerError(f"{self.name[:80]!r} cannot name an account", f"1 to {KEY_CHARS_MAX} characters")
        check_event(Event(self.event_id, self.topic, headers=self.headers))

    @property
    def event_id(self) -> str:
        return f"{self.name}{_ID_SUFFIX}"


@dataclass(frozen=True, slots=True)
class Entry:
    """How one item of an account ended. The first entry of an item counts."""

    item: str
    ok: bool = True


@dataclass(frozen=True, slots=True)
class AccountTally:
    """The counts of one account. Before the seal more may have ended than is expected; after it never."""

    name: str
    total: int = 0
    done: int = 0
    errors: int = 0
    sealed: bool = False
    finished: bool = False

    @property
    def ended(self) -> int:
        return self.done + self.errors


@dataclass(frozen=True, slots=True)
class Posted:
    """What one call did to an account.

    `accepted`, or the reason why nothing was applied: `absent` (there is no such account), `open` (it was opened
    before), `sealed` (its total is fixed), `short` (more has ended than this seal allows). `new` are the items this
    call counted; `surplus` those that a sealed account has no room for. `crossed`: this very call crossed the finish
    line.
    """

    accepted: bool
    reason: str = ""
    new: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()
    crossed: bool = False
    tally: AccountTally | None = None


ABSENT = Posted(False, "absent")


@dataclass(frozen=True, slots=True)
class Expect:
    """`count` more items belong to the account. One `source` says it once."""

    account: str
    count: int
    source: str

    def __post_init__(self) -> None:
        if self.count < 0 or not self.source or len(self.source) > KEY_CHARS_MAX:
            raise CallerError(f"{self!r} cannot be expected", "count ≥ 0, and a source that a repeat has as well")


@dataclass(frozen=True, slots=True)
class Seal:
    """Nobody will expect more. `total` fixes the count, None leaves it at what was expected."""

    account: str
    total: int | None = None

    def __post_init__(self) -> None:
        if self.total is not None and self.total < 0:
            raise CallerError(f"an account cannot be sealed at {self.total} items")


@dataclass(frozen=True, slots=True)
class Settle:
    """Items of the account ended."""

    account: str
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        if len(self.entries) > ENTRIES_MAX:
            raise TooLarge(f"{len(self.entries):,} entries are over ENTRIES_MAX = {ENTRIES_MAX:,}", "settle in parts")
        if any(not entry.item or len(entry.item) > KEY_CHARS_MAX for entry in self.entries):
            raise CallerError("an item of an account has no id, or a long one", f"1 to {KEY_CHARS_MAX} characters")

    def first_of_each(self) -> dict[str, bool]:
        """The entries that count, if all are new."""
        first: dict[str, bool] = {}
        for entry in self.entries:
            first.setdefault(entry.item, entry.ok)
        return first


Posting = Account | Expect | Seal | Settle


def insist(posting: Posting, posted: Posted) -> Posted:
    """A posting that nobody could look at the answer of: refused is an error. To open what is open is none."""
    if posted.accepted or isinstance(posting, Account):
        return posted
    if posted.reason == ABSENT.reason:
        raise NotFound(f"there is no account {posting.account}", "open it, in the same consequence or an earlier one")
    raise Conflict(f"account {posting.account} refuses {type(posting).__name__.lower()}: {posted.reason}")


def announcement(account: Account, tally: AccountTally) -> Event:
    """What is told when an account finishes."""
    counts = {"account": tally.name, "total": tally.total, "done": tally.done, "errors": tally.errors}
    body = json.dumps(counts, ensure_ascii=False).encode()
    return Event(account.event_id, account.topic, body, key=account.name, headers=account.headers)
