"""How a consumer works."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core.claims import HOLD_S as CLAIM_HOLD_S
from headrace.core.claims import TIMEOUT_S
from headrace.core.deliveries import RECEIVE_MAX
from headrace.core.errors import CallerError
from headrace.core.retry import RetryPolicy
from headrace.runtime.seams import Seams

BATCH_MAX = 200
HOLD_S = 60.0
POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """Up to `batch_max` messages are handled by one call, and `lanes` calls run at a time. `prefetch` messages are held
    at the most (0: as many as the lanes handle), each for `hold_s` and renewed at a third of it.

    A call may take `timeout_s` for each of its messages. `retry` says how long a message waits after a failure; how
    often it may fail is the subscription's. `poll_s`: how long an idle consumer trusts that it would be woken. `id` is
    made up when it is empty; `seams` are where identity and chance come from.
    """

    batch_max: int = BATCH_MAX
    lanes: int = 1
    prefetch: int = 0
    hold_s: float = HOLD_S
    timeout_s: float = TIMEOUT_S
    poll_s: float = POLL_S
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    id: str = ""
    seams: Seams = field(default_factory=Seams, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.batch_max <= RECEIVE_MAX or self.lanes < 1:
            raise CallerError(f"{self!r} cannot work", f"1 ≤ batch_max ≤ {RECEIVE_MAX:,}, lanes ≥ 1")
        if self.prefetch and self.prefetch < max(self.lanes, self.batch_max):
            raise CallerError(f"{self!r} cannot work", "prefetch ≥ lanes and ≥ batch_max, or 0")
        if min(self.hold_s, self.timeout_s, self.poll_s) <= 0:
            raise CallerError(f"{self!r} cannot work", "all times must be above 0")

    @property
    def held_max(self) -> int:
        return self.prefetch or self.lanes * self.batch_max


INLET = ConsumerOptions(batch_max=1, lanes=8, prefetch=16, hold_s=CLAIM_HOLD_S)
"""Of an inlet: a message is a transaction of its own, so its batches have one."""
