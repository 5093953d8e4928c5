"""What the demo did, as it was read afterwards: from the REST interface and from the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SalesReceipt:
    """`sold` are the jobs that the REST interface accepted, `paid` the rows of the ledger."""

    sold: int
    completed: int
    paid: int
    amount_sold: int
    amount_paid: int
    killed: int
    frozen: int
    takeovers: int
    repeats_left_alone: int
    late_payments_refused: int
    seconds: float
    page: str

    @property
    def right(self) -> bool:
        once = self.sold == self.completed == self.paid and self.amount_sold == self.amount_paid
        return once and self.killed == self.frozen == 1 and self.takeovers >= 2 and self.late_payments_refused >= 1

    @property
    def rows(self) -> Mapping[str, object]:
        return {
            "sold, over the REST interface": self.sold,
            "jobs completed": self.completed,
            "paid, in the ledger": self.paid,
            "VND sold": self.amount_sold,
            "VND paid": self.amount_paid,
            "workers killed with -9": self.killed,
            "workers frozen past their lock": self.frozen,
            "runs taken over": self.takeovers,
            "payments found paid before": self.repeats_left_alone,
            "late payments refused": self.late_payments_refused,
            "seconds": f"{self.seconds:,.1f}",
            "page": self.page,
        }

    @property
    def sentence(self) -> str:
        return "sold = paid, each once" if self.right else "the account is not right"
