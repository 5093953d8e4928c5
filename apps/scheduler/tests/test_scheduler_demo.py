"""The demo from its command to its page, and the ledger that it counts in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, chromium_path

from headrace_scheduler.demo.ledger import FencedRun, PaymentAnswer, PaymentLedger
from headrace_scheduler.demo.receipt import SalesReceipt

RIGHT = {
    "orders_sold": 2,
    "orders_paid": 2,
    "orders_shipped": 2,
    "stock_left": 0,
    "sold": 3,
    "completed": 3,
    "paid": 3,
    "amount_sold": 30,
    "amount_paid": 30,
    "killed": 1,
    "frozen": 1,
    "takeovers": 2,
    "repeats_left_alone": 0,
    "late_payments_refused": 1,
}
# What runs into its neighbours.
OVERLAPPING = """[...document.querySelectorAll('tbody td')].filter(each => each.scrollWidth > each.clientWidth + 1)
    .map(each => each.textContent)"""


def run(token: int, resource: str = "job:1") -> FencedRun:
    return FencedRun(resource, token, 1)


def test_every_sale_is_paid_once_through_a_kill_and_a_freeze(headrace_command: Any, tmp_path: Path) -> None:
    place = tmp_path / "demo"
    done = headrace_command("scheduler", "demo", "--sales", "4", "--headless", "--json", "--to", str(place))
    assert done.returncode == 0, done.stderr
    receipt = json.loads(done.stdout)
    assert [receipt[f"orders_{each}"] for each in ("sold", "paid", "shipped")] == [10, 10, 10]
    assert receipt["stock_left"] == 0
    assert receipt["sold"] == receipt["completed"] == receipt["paid"] == 6
    assert receipt["amount_sold"] == receipt["amount_paid"]
    assert (receipt["killed"], receipt["frozen"], receipt["late_payments_refused"]) == (1, 1, 1)
    assert receipt["takeovers"] >= 2
    # What it leaves is a directory like any other: the commands work there without further settings.
    purge = ("scheduler", "purge", "--before", "2026-01-31T00:00:00Z", "--dry-run")
    purged = headrace_command(*purge, SCHEDULER_HOME=str(place))
    assert purged.returncode == 0, purged.stderr
    again = headrace_command("scheduler", "demo", "--headless", "--to", str(place))
    assert (again.returncode, "is not empty" in again.stderr) == (4, True)
    with Browser(chromium_path(), tmp_path / "profile", Path(receipt["page"]).as_uri()) as browser:
        for width, scheme in ((1_440, "light"), (1_440, "dark"), (390, "light"), (390, "dark")):
            browser.narrow(width)
            browser.prefer(scheme)
            assert browser.run("document.documentElement.scrollWidth") == width
            assert browser.run(OVERLAPPING) == []
            assert browser.violations() == []
        assert "10 orders sold = paid = shipped, 6 sales paid" in browser.run(
            "document.querySelector('.headline').textContent"
        )
        assert browser.said == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("orders_sold", 3),
        ("orders_paid", 1),
        ("orders_shipped", 1),
        ("stock_left", 1),
        ("paid", 2),
        ("completed", 2),
        ("amount_paid", 40),
        ("killed", 0),
        ("frozen", 0),
        ("takeovers", 1),
        ("late_payments_refused", 0),
    ],
)
def test_a_receipt_that_does_not_add_up_says_so(name: str, value: int) -> None:
    assert SalesReceipt(**RIGHT, seconds=1.0, page="").right
    wrong = SalesReceipt(**{**RIGHT, name: value}, seconds=1.0, page="")
    assert (wrong.right, wrong.sentence) == (False, "the account is not right")


def test_the_ledger_refuses_an_earlier_run_and_pays_a_sale_once(tmp_path: Path) -> None:
    ledger = PaymentLedger(tmp_path / "ledger.db")
    assert ledger.begin(run(5))
    assert ledger.begin(run(7))
    assert not ledger.begin(run(5))
    assert ledger.pay(run(5), "sale-1", 100) is PaymentAnswer.REFUSED
    assert ledger.payments() == {}
    assert ledger.pay(run(7), "sale-1", 100) is PaymentAnswer.PAID
    assert ledger.pay(run(8), "sale-1", 100) is PaymentAnswer.PAID_BEFORE
    assert ledger.begin(run(1, "job:2"))
    assert ledger.payments() == {"sale-1": 100}
    assert [ledger.count(answer) for answer in PaymentAnswer] == [1, 1, 1]
    ledger.close()
