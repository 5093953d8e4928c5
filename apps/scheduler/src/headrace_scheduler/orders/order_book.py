"""What can be asked of orders and of the stock.

Stock is reserved when the order is made. The rows of its articles are read, and changed only if their version is still
the same: of two orders for the last piece one is made, and the other reads again. The order, what it takes from the
stock, and the event that asks for its payment are one commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import headrace
from headrace.errors import Busy, Conflict, InvalidPayload, NotFound
from headrace.services import Backoff, Pauses
from headrace.tables import Row
from headrace_scheduler.orders.database import OrdersDatabase
from headrace_scheduler.orders.values import (
    OrderItem,
    OrderJob,
    OrderStatus,
    OutOfStock,
    PlacedOrder,
    StockArticle,
    job_event,
)

# Every round of a conflict has a winner. So many that even a rush on one article ends with an answer for all.
TRIES_MAX = 200
CONFLICTS = Backoff(0.002, 0.1)


class OrderBook:
    """Makes and finds orders, and keeps the stock."""

    def __init__(self, database: OrdersDatabase, tries_max: int = TRIES_MAX) -> None:
        self._database, self._tries_max = database, tries_max

    async def find(self, order_id: str) -> PlacedOrder | None:
        engine = await self._database.engine()
        row = await engine.one("order_of", order_id=order_id)
        if row is None:
            return None
        customer_id, status, total, failure = row
        lines = await engine.rows("order_lines", order_id=order_id)
        items = tuple(OrderItem(sku, quantity) for sku, quantity in lines)
        return PlacedOrder(order_id, customer_id, OrderStatus(status), total, failure or "", items)

    async def place(self, order_id: str, customer_id: str, quantities: Mapping[str, int]) -> PlacedOrder:
        """Make an order, or find the one that an earlier call with this id has made. `OutOfStock` and `InvalidPayload`
        leave nothing."""
        engine, pauses = await self._database.engine(), Pauses(backoff=CONFLICTS)
        for _ in range(self._tries_max):
            if (order := await self.find(order_id)) is not None:
                return order
            try:
                return await _placed(engine, order_id, customer_id, quantities)
            except Conflict:
                await asyncio.sleep(pauses.next_s())
        raise Busy(f"the articles of order {order_id} were changed by others {self._tries_max} times")

    async def is_refunded(self, order_id: str) -> bool:
        """Its money was given back."""
        return bool(await (await self._database.engine()).rows("refund_of", order_id=order_id))

    async def is_withdrawn(self, sku: str) -> bool:
        row = await (await self._database.engine()).one("article_of", sku=sku)
        return row is None or row[3]

    async def article(self, sku: str) -> StockArticle:
        row = await (await self._database.engine()).one("article_of", sku=sku)
        if row is None or row[3]:
            raise NotFound(f"there is no article {sku}")
        return _article(sku, row)

    async def put_article(self, sku: str, stock: int, price: int) -> StockArticle:
        """From now on there is so much of it at this price, whatever there was."""
        (row,) = await (await self._database.engine()).run("article_put", sku=sku, stock=stock, price=price)
        return _article(sku, row)

    async def withdraw_article(self, sku: str) -> None:
        """It is sold no more, and what was sold of it and not shipped yet will be refunded."""
        async with (await self._database.engine()).transaction() as tx:
            withdrawn = tx.run("article_withdraw", sku=sku)
        if not withdrawn.count:
            raise NotFound(f"there is no article {sku}")


async def _placed(
    engine: headrace.Engine, order_id: str, customer_id: str, quantities: Mapping[str, int]
) -> PlacedOrder:
    """One try. `Conflict` if an article was changed since it was read."""
    articles = {sku: await _available(engine, sku, quantity) for sku, quantity in quantities.items()}
    total = sum(articles[sku].price * quantity for sku, quantity in quantities.items())
    async with engine.transaction() as tx:
        # In one order for all: two orders with the same articles wait for each other and do not deadlock.
        for sku in sorted(quantities):
            tx.run("stock_take", sku=sku, quantity=quantities[sku], version=articles[sku].version, expect=1)
        tx.run("order_add", order_id=order_id, customer_id=customer_id, total=total, expect=1)
        for line, (sku, quantity) in enumerate(quantities.items()):
            price = articles[sku].price
            tx.run("order_line_add", order_id=order_id, line=line, sku=sku, quantity=quantity, price=price)
        tx.publish(job_event(OrderJob.PAYMENT, order_id))
    items = tuple(OrderItem(sku, quantity) for sku, quantity in quantities.items())
    return PlacedOrder(order_id, customer_id, OrderStatus.PENDING, total, "", items)


async def _available(engine: headrace.Engine, sku: str, quantity: int) -> StockArticle:
    row = await engine.one("article_of", sku=sku)
    if row is None or row[3]:
        raise InvalidPayload(f"there is no article {sku}")
    article = _article(sku, row)
    if article.stock < quantity:
        raise OutOfStock(f"{quantity} of {sku} were ordered, and {article.stock} are left")
    return article


def _article(sku: str, row: Row) -> StockArticle:
    stock, price, version, *_ = row
    return StockArticle(sku, stock, price, version)
