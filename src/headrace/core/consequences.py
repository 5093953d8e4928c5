"""What follows from a message that was consumed: data, so that it fits into one transaction with its inbox row."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.events import Event
from headrace.core.jobs import Submission, Submitted
from headrace.core.ledgers import Posted, Posting


@dataclass(frozen=True, slots=True)
class Consequence:
    """Everything that one message brings about, in this order: jobs are submitted, external stages (job, stage) are
    closed by the message's own event id, the ledger is posted to, further events are committed."""

    submissions: tuple[Submission, ...] = ()
    closes: tuple[tuple[str, str], ...] = ()
    postings: tuple[Posting, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Consumed:
    """`new`: this call brought the consequence about, and the rest says how. Else an earlier one had."""

    new: bool
    submitted: tuple[Submitted, ...] = ()
    closed: tuple[bool, ...] = ()
    posted: tuple[Posted, ...] = ()
