"""What the demo did, as it was read afterwards: from the REST interface and from the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SalesReceipt:
    """Orders as the service accepted them and as its tables have them; `sold` are the sales that the REST interface
    accepted, `paid` the rows of the ledger."""

    orders_sold: int
    orders_paid: int
    orders_shipped: int
    stock_left: int
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
        orders = self.orders_sold == self.orders_paid == self.orders_shipped > 0 and self.stock_left == 0
        return (
            once
            and orders
            and self.killed == self.frozen == 1
            and self.takeovers >= 2
            and self.late_payments_refused >= 1
        )

    @property
    def rows(self) -> Mapping[str, object]:
        return {
            "orders sold": self.orders_sold,
            "orders paid": self.orders_paid,
            "orders shipped": self.orders_shipped,
            "stock left": self.stock_left,
            "sales, over the REST interface": self.sold,
            "jobs completed": self.completed,
            "sales paid, in the ledger": self.paid,
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
        return "sold = paid = shipped, each once" if self.right else "the account is not right"
