"""A claim in the worker's hands: which items were started, how they ended, what they sent.

Success leaves no trace per item. Items start in order, so what is done is what was started, less what is in flight and
less the few that ended otherwise: one mask, made when a settlement is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from headrace.core.bits import of, ones
from headrace.core.claims import Again, Claim, Loss, Settlement, Statement
from headrace.core.graph import Kind
from headrace.core.parcels import Parcel
from headrace.runtime.claim_output import ClaimOutput, parcels_of

if TYPE_CHECKING:
    from headrace.runtime.flow import Stage


@dataclass(frozen=True, slots=True)
class Commit:
    """A streaming item that wants its sends and its cursor made visible now."""

    index: int
    cursor: bytes | None
    sends: tuple[Parcel, ...]
    flips: tuple[int, ...]
    answer: asyncio.Future[None]


class Place:
    """Where one lane is: the slice and the index of its item (-1: between items), or the batch of a list handler."""

    __slots__ = ("batch", "commits", "connection", "index", "loaded", "slice", "statements")

    def __init__(self) -> None:
        self.slice: Slice | None = None
        self.index = -1
        self.batch: ListCall | None = None
        self.commits = 0
        # Whether the handler has sent or recorded anything: the one thing a lane looks at after an item.
        self.loaded = False
        self.statements: list[tuple[Slice, Statement]] = []
        # Of the open transaction that the handler works in, if its stage has one.
        self.connection: Any = None


Spots = list[tuple["Slice", int]]
"""Items of one list call: the slice each one belongs to, and its index there."""


class ListCall:
    """The items one call of a list handler gets; `spots` says where each one is at home."""

    __slots__ = ("_positions", "items", "spots")

    def __init__(self, spots: Spots) -> None:
        self.spots = spots
        self.items: list[Any] = [work.items[index] for work, index in spots]
        self._positions: dict[int, int] | None = None

    def position(self, parent: Any) -> int:
        """The position of an item given as itself or as its index; -1 if it is not in the batch, or not once."""
        if isinstance(parent, int):
            return parent if 0 <= parent < len(self.items) else -1
        if self._positions is None:
            self._positions = {}
            for position, item in enumerate(self.items):
                self._positions[id(item)] = -1 if id(item) in self._positions else position
        return self._positions.get(id(parent), -1)


class Slice:
    """One claim and everything the worker knows of it."""

    __slots__ = (
        "again",
        "arrived_at",
        "busy",
        "claim",
        "commits",
        "driven",
        "ended",
        "ending",
        "excluded",
        "fence",
        "given_back",
        "good_until",
        "items",
        "lanes",
        "losses",
        "lost",
        "next",
        "numbers",
        "on_idle",
        "output",
        "released",
        "sent",
        "sent_commit",
        "sent_output",
        "settled",
        "settled_at",
        "stage",
        "started_at",
        "step",
        "stop",
        "travelling",
        "wrong",
    )

    def __init__(self, claim: Claim, stage: Stage, now: float, good_until: float) -> None:
        self.claim, self.fence, self.stage = claim, claim.fence, stage
        self.arrived_at, self.good_until = now, good_until
        self.started_at: float | None = None
        self.settled_at = now
        self.items: list[Any] = []
        self.wrong: dict[int, str] = {}
        self.next, self.stop = 0, claim.count
        self.lanes: set[Place] = set()
        self.busy = self.excluded = self.settled = self.step = 0
        self.losses: list[Loss] = []
        self.again: list[Again] = []
        self.output = ClaimOutput()
        self.numbers = count(1)
        self.commits: deque[Commit] = deque()
        self.sent: Settlement | None = None
        self.sent_commit: Commit | None = None
        self.sent_output = ClaimOutput()
        self.ending = self.lost = self.ended = self.released = self.given_back = False
        self.travelling = False
        # Whoever drives it starts one item after another, and says when no other follows: until then it does not end.
        self.driven = False
        self.on_idle: Callable[[Slice], None] | None = None

    def open(self, now: float) -> None:
        """Decode the items when the first of them is about to start. One that does not fit dies alone."""
        if self.started_at is not None:
            return
        self.started_at = now
        claim, barrier = self.claim, self.stage.spec.kind is Kind.BARRIER
        if barrier and claim.tallies is not None:
            tallies = {name: own for name, (own, _) in claim.tallies.items()}
            self.items = [self.stage.shape.barrier_item(tallies)] * claim.count
            return
        self.items, self.wrong = self.stage.codec.decode(claim.payload, claim.ends)
        if barrier or claim.tallies is not None:
            words = f"in the job's own graph {claim.stage!r} is another kind of stage than in this code"
            self.wrong = dict.fromkeys(range(claim.count), words)
        for index, error in self.wrong.items():
            self.lose(Loss(index, "invalid_payload", "payload", error, claim.attempt + 1))

    @property
    def unstarted(self) -> int:
        return self.stop - self.next

    @property
    def idle(self) -> bool:
        """Nothing of it is in flight and nothing will be started any more."""
        return self.next >= self.stop and not self.lanes and not self.busy

    @property
    def over(self) -> bool:
        """The next settlement ends the claim."""
        return self.idle and not self.driven

    def leave(self) -> None:
        """Somebody stopped working on it."""
        if self.on_idle is not None and self.idle:
            self.on_idle(self)

    def release(self) -> None:
        """Start nothing more of it: what was not started goes back with the next settlement."""
        self.stop, self.released = min(self.stop, self.next), True
        self.leave()

    def lose(self, loss: Loss) -> None:
        self.excluded |= 1 << loss.index
        self.losses.append(loss)
        # A settlement is bounded by its bytes, and tracebacks are most of some.
        self.output.size += len(loss.traceback)

    def postpone(self, again: Again) -> None:
        self.excluded |= 1 << again.index
        self.again.append(again)

    def forgo(self, index: int) -> None:
        """Started, but without an outcome: it goes back, and no attempt is spent."""
        self.excluded |= 1 << index

    def in_flight(self) -> int:
        bits = self.busy
        for place in self.lanes:
            if place.index >= 0:
                bits |= 1 << place.index
        return bits

    def done_bits(self) -> int:
        return ones(self.next) & ~self.in_flight() & ~self.excluded & ~self.settled

    def has_news(self) -> bool:
        return bool(self.commits or self.losses or self.again or self.done_bits() or self._rest() is not None)

    def _rest(self) -> int | None:
        """From which index on nothing was started and nothing will be; None if that is not for others to have."""
        return self.stop if self.released and not self.given_back and self.stop < self.claim.count else None

    def settlement(self) -> Settlement:
        """The next settlement: what ended since the last one, and the claim itself if nothing of it is left."""
        if self.sent is None:
            commit = self.sent_commit = self._next_commit()
            output = self.sent_output = self.output
            self.step += 1
            end = self.over and not self.commits
            self.sent = Settlement(
                fence=self.fence,
                step=self.step,
                done=self.done_bits(),
                dead=tuple(self.losses),
                again=tuple(self.again),
                sends=parcels_of(self.claim, output.sends) + (commit.sends if commit else ()),
                flips=tuple(number for _, number in output.flips) + (commit.flips if commit else ()),
                cursor=(commit.index, commit.cursor) if commit and commit.cursor is not None else None,
                statements=tuple(output.statements),
                end=end,
                back=None if end else self._rest(),
            )
            self.losses, self.again, self.output = [], [], ClaimOutput()
        return self.sent

    def travel(self, done: int) -> Settlement:
        """The next settlement, of items whose handler ran in an open transaction. It travels in that transaction and
        nowhere else: sent by itself it would end the items without their effects."""
        assert self.sent is None, "a claim has one settlement under way"
        output, self.output = self.output, ClaimOutput()
        self.step += 1
        self.sent_output, self.travelling = output, True
        self.sent = Settlement(
            fence=self.fence,
            step=self.step,
            done=done,
            sends=parcels_of(self.claim, output.sends),
            flips=tuple(number for _, number in output.flips),
            end=False,
        )
        return self.sent

    def accepted(self, now: float) -> Settlement:
        """The settlement that was sent is in the account: it is never sent again."""
        sent = self.sent
        assert sent is not None, "only what was sent is answered"
        self.settled |= sent.done | of(loss.index for loss in sent.dead) | of(again.index for again in sent.again)
        if self.sent_commit is not None and not self.sent_commit.answer.done():
            self.sent_commit.answer.set_result(None)
        self._forget_sent()
        self.settled_at, self.ended = now, sent.end
        self.given_back = self.given_back or sent.back is not None
        return sent

    def refused(self, without: frozenset[int], error: Exception) -> None:
        """The store applied nothing of what was sent, because of these items: take it back, less what they left.

        They still need an outcome. A commit that was part of it is answered with the error if none of them is at fault.
        """
        sent, commit = self.sent, self.sent_commit
        assert sent is not None, "only what was sent is answered"
        output = self.sent_output.without(without)
        output.join(self.output)
        self.output = output
        self.losses[:0], self.again[:0] = sent.dead, sent.again
        self._forget_sent()
        self.step -= 1
        if commit is not None and not commit.answer.done():
            if without:
                self.commits.appendleft(commit)
            else:
                commit.answer.set_exception(error)

    def _forget_sent(self) -> None:
        self.sent, self.sent_commit, self.sent_output, self.travelling = None, None, ClaimOutput(), False

    def drop(self, error: Exception) -> None:
        """The claim is not ours any more: nothing is started, nothing is sent, whoever waits is told."""
        self.lost, self.stop, self.on_idle = True, min(self.stop, self.next), None
        waiting = [self.sent_commit, *self.commits]
        self.commits.clear()
        for commit in waiting:
            if commit is not None and not commit.answer.done():
                commit.answer.set_exception(error)

    def _next_commit(self) -> Commit | None:
        while self.commits:
            commit = self.commits.popleft()
            # One whose handler was interrupted while it waited is not wanted any more.
            if not commit.answer.done():
                return commit
        return None
