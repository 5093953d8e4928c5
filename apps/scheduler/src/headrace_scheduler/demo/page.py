"""The receipt of the demo as a page: what was counted, what happened when, and every run with its token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.pages import (
    Cell,
    Document,
    Header,
    Html,
    Listing,
    Section,
    TableColumn,
    Texts,
    Tile,
    Words,
    document,
    join,
    mark,
    paragraphs,
    table,
    table_section,
    tiles,
)
from headrace_scheduler.demo.receipt import SalesReceipt
from headrace_scheduler.demo.story import Story

TEXTS = Texts(
    en={
        "title": "Sales of the demo",
        "right": "{orders} orders sold = paid = shipped, {sold} sales paid, each once, though a worker was killed and "
        "another woke too late.",
        "wrong": "The account is not right: see below.",
        "orders": "orders sold",
        "orders.more": "{paid} paid, {shipped} shipped, {left} left in stock",
        "sold": "sales",
        "sold.more": "{amount} VND, accepted by the REST interface",
        "paid": "sales paid",
        "paid.more": "{amount} VND, counted in the ledger",
        "takeovers": "runs taken over",
        "takeovers.more": "one worker killed with -9, one frozen past its lock",
        "refused": "late payments refused",
        "refused.more": "their token was lower than the one that had paid",
        "what": "What happened",
        "second": "Second",
        "event": "Event",
        "runs": "Runs",
        "runs.about": "A run that was lost changes nothing once the next one has begun: the ledger keeps the highest "
        "token of each job, and refuses a lower one in the transaction that would pay.",
        "sale": "Sale",
        "token": "Token",
        "worker": "Worker",
        "began": "Began",
        "ended": "Ended",
        "status": "Status",
        "completed": "completed",
        "failed": "failed",
        "lost": "lost",
    },
)
TONES = {"completed": "good", "failed": "bad", "lost": "warn"}


def receipt_page(receipt: SalesReceipt, story: Story) -> Document:
    words = TEXTS.of("en")
    said = words("wrong")
    if receipt.right:
        said = words("right", orders=receipt.orders_sold, sold=receipt.sold)
    header = Header(words("title"), words("title"), said, tone="good" if receipt.right else "bad")
    happened = [
        TableColumn(words("second"), "second"),
        TableColumn(words("event"), "event", wide=True),
    ]
    rows = [(f"{event.at_s:.1f}", event.text) for event in story.events]
    return document(
        words,
        header,
        _tiles(words, receipt),
        [
            table_section(words, Listing("what", words("what"), happened, rows)),
            Section("runs", words("runs"), _runs(words, story)),
        ],
    )


def _tiles(words: Words, receipt: SalesReceipt) -> Html:
    beside = {"paid": receipt.orders_paid, "shipped": receipt.orders_shipped, "left": receipt.stock_left}
    sold, paid = words.number(receipt.amount_sold), words.number(receipt.amount_paid)
    return tiles(
        [
            Tile(words("orders"), words.number(receipt.orders_sold), words("orders.more", **beside)),
            Tile(words("sold"), words.number(receipt.sold), words("sold.more", amount=sold)),
            Tile(words("paid"), words.number(receipt.paid), words("paid.more", amount=paid)),
            Tile(words("takeovers"), words.number(receipt.takeovers), words("takeovers.more")),
            Tile(words("refused"), words.number(receipt.late_payments_refused), words("refused.more")),
        ]
    )


def _runs(words: Words, story: Story) -> Html:
    statuses = {status: words.get(status, status) for status in {run["status"] for run in story.runs}}
    columns = [
        TableColumn(words("sale"), "sale"),
        TableColumn(words("token"), "token"),
        TableColumn(words("status"), "status", filter="choice", choices=statuses),
        TableColumn(words("worker"), "worker"),
        TableColumn(words("began"), "began"),
        TableColumn(words("ended"), "ended"),
    ]
    rows = [_row(words, run) for run in sorted(story.runs, key=lambda run: (run["sale"], run["start_at"]))]
    return join(paragraphs(words("runs.about")), table(words, Listing("runs", words("runs"), columns, rows)))


def _row(words: Words, run: Mapping[str, Any]) -> tuple[object, ...]:
    # Of a worker's id the process is what the events speak of.
    status, process = run["status"], run["worker_id"].split(":")[1]
    shown = Cell(mark(TONES.get(status, "plain"), words.get(status, status)), [status])
    clock = [moment[11:23] if moment else None for moment in (run["start_at"], run["end_at"])]
    return run["sale"], str(run["fencing_token"]), shown, process, *clock
