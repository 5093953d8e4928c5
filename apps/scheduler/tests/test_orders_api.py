"""What customers see of orders, and what becomes of the stock."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any
from uuid import uuid4

import pytest
from orders_shop import PRICE, Shop

import headrace
from headrace.errors import Busy
from headrace_scheduler.orders.database import STATEMENTS, OrdersDatabase
from headrace_scheduler.orders.order_book import OrderBook

TEA = {"customer_id": "an", "items": [{"sku": "tea", "quantity": 2}]}


async def test_an_order_is_made_and_shown(shop: Shop) -> None:
    made = await shop.client.post("/orders", json=TEA)
    document = made.json()
    assert made.status_code == 201
    assert document == {
        "order_id": document["order_id"],
        "status": "pending",
        "items": [{"sku": "tea", "quantity": 2}],
        "total": 2 * PRICE,
    }
    shown = await shop.client.get(made.headers["location"])
    assert (shown.status_code, shown.json()) == (200, document)
    assert (await shop.client.get("/inventory/tea")).json() == {
        "sku": "tea",
        "stock": 8,
        "price": PRICE,
        "version": 2,
    }
    assert (await shop.client.get(f"/orders/{uuid4()}")).status_code == 404


async def test_a_repeated_key_gets_the_first_answer_and_takes_nothing(shop: Shop) -> None:
    key = {"Idempotency-Key": "k1"}
    first, again = [await shop.client.post("/orders", json=TEA, headers=key) for _ in range(2)]
    assert (again.status_code, again.json()) == (201, first.json())
    other = await shop.client.post("/orders", json={**TEA, "customer_id": "binh"}, headers=key)
    assert other.status_code == 422
    assert (await shop.book.article("tea")).stock == 8
    assert len(shop.rows("SELECT order_id FROM orders")) == 1


async def test_an_order_whose_answer_was_lost_is_found_and_not_made_again(shop: Shop) -> None:
    first = await shop.place(2)
    again = await shop.place(2, order_id=first.order_id)
    assert again == first
    assert (await shop.book.article("tea")).stock == 8


async def test_what_is_named_twice_is_ordered_in_the_sum(shop: Shop) -> None:
    await shop.book.put_article("cup", 5, 1_000)
    items = [{"sku": "tea", "quantity": 1}, {"sku": "cup", "quantity": 2}, {"sku": "tea", "quantity": 3}]
    made = (await shop.client.post("/orders", json={"customer_id": "an", "items": items})).json()
    assert made["items"] == [{"sku": "tea", "quantity": 4}, {"sku": "cup", "quantity": 2}]
    assert made["total"] == 4 * PRICE + 2_000


async def test_out_of_stock_is_409_and_leaves_nothing(shop: Shop) -> None:
    await shop.book.put_article("cup", 5, 1_000)
    items = [{"sku": "cup", "quantity": 1}, {"sku": "tea", "quantity": 11}]
    refused = await shop.client.post("/orders", json={"customer_id": "an", "items": items})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:headrace:problem:out-of-stock")
    assert shop.rows("SELECT order_id FROM orders") == []
    assert ((await shop.book.article("cup")).stock, (await shop.book.article("tea")).stock) == (5, 10)


@pytest.mark.parametrize(
    "body",
    [
        {"customer_id": "an", "items": [{"sku": "coffee", "quantity": 1}]},
        {"customer_id": "an", "items": []},
        {"customer_id": "an", "items": [{"sku": "tea", "quantity": 0}]},
        {"customer_id": "an", "items": [{"sku": "tea", "quantity": 1.5}]},
        {"customer_id": "an", "items": [{"sku": "tea", "quantity": True}]},
        {"customer_id": "", "items": [{"sku": "tea", "quantity": 1}]},
        {"customer_id": "an", "items": [{"sku": "te\0", "quantity": 1}]},
        {"items": [{"sku": "tea", "quantity": 1}]},
        [],
    ],
)
async def test_an_order_that_cannot_be_is_422(sqlite_shop: Shop, body: Any) -> None:
    assert (await sqlite_shop.client.post("/orders", json=body)).status_code == 422
    assert sqlite_shop.rows("SELECT order_id FROM orders") == []


@pytest.mark.parametrize("body", [{"stock": -1, "price": 1}, {"stock": 1.5, "price": 1}, {"stock": 1}, {"price": "1"}])
async def test_a_stock_that_cannot_be_is_422(sqlite_shop: Shop, body: Any) -> None:
    assert (await sqlite_shop.client.put("/inventory/tea", json=body)).status_code == 422


async def test_an_article_is_put_again_and_withdrawn(shop: Shop) -> None:
    put = await shop.client.put("/inventory/tea", json={"stock": 3, "price": 7})
    assert (put.status_code, put.json()) == (200, {"sku": "tea", "stock": 3, "price": 7, "version": 2})
    assert (await shop.client.delete("/inventory/tea")).status_code == 204
    assert (await shop.client.post("/orders", json=TEA)).status_code == 422
    gone = [await shop.client.get("/inventory/tea"), await shop.client.delete("/inventory/tea")]
    assert [answer.status_code for answer in gone] == [404, 404]
    await shop.client.put("/inventory/tea", json={"stock": 3, "price": 7})
    assert (await shop.client.post("/orders", json=TEA)).status_code == 201


async def test_fifty_at_once_share_a_stock_of_ten(shop: Shop) -> None:
    body = {"customer_id": "an", "items": [{"sku": "tea", "quantity": 1}]}
    answers = await asyncio.gather(*(shop.client.post("/orders", json=body) for _ in range(50)))
    assert Counter(answer.status_code for answer in answers) == {201: 10, 409: 40}
    assert shop.rows("SELECT stock, version FROM inventory") == [(0, 11)]


class Stale:
    """An engine whose reads are always one change behind."""

    def __init__(self, engine: headrace.Engine) -> None:
        self._engine = engine

    async def one(self, name: str, /, **values: object) -> Any:
        row = await self._engine.one(name, **values)
        return row if name != "article_of" or row is None else (*row[:2], row[2] - 1, row[3])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


async def test_an_article_that_is_always_changed_by_others_is_not_sold_unseen(shop: Shop) -> None:
    stale: Any = Stale(shop.engine)

    class Behind(OrdersDatabase):
        async def engine(self) -> headrace.Engine:
            found: headrace.Engine = stale
            return found

    with pytest.raises(Busy, match="3 times"):
        await OrderBook(Behind(shop.settings), tries_max=3).place(str(uuid4()), "an", {"tea": 1})
    assert shop.rows("SELECT stock FROM inventory") == [(10,)]
    assert shop.rows("SELECT order_id FROM orders") == []


def test_both_databases_have_the_same_statements() -> None:
    assert STATEMENTS.named("sqlite").keys() == STATEMENTS.named("postgres").keys()
