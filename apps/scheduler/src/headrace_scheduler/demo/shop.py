"""The shop of the demo: more customers than stock, over the REST interface of orders."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

ARTICLE, PRICE = "tea", 45_000
STOCK, CUSTOMERS = 10, 14
OUT_OF_STOCK = 409
_COUNTS = "SELECT (SELECT count(*) FROM payments), (SELECT count(*) FROM shipments), (SELECT sum(stock) FROM inventory)"


@dataclass(frozen=True, slots=True)
class ShopCounts:
    """What the shop's own tables hold."""

    paid: int
    shipped: int
    stock_left: int


@dataclass
class DemoShop:
    """`orders` are those that were accepted, `turned_away` counts customers who came too late."""

    client: httpx.AsyncClient
    database: Path
    orders: list[str] = field(default_factory=list)
    turned_away: int = 0

    async def open(self) -> None:
        body = {"stock": STOCK, "price": PRICE}
        (await self.client.put(f"/inventory/{ARTICLE}", json=body)).raise_for_status()
        await asyncio.gather(*(self._order(f"customer-{number}") for number in range(1, CUSTOMERS + 1)))

    async def _order(self, customer: str) -> None:
        body = {"customer_id": customer, "items": [{"sku": ARTICLE, "quantity": 1}]}
        answer = await self.client.post("/orders", json=body)
        if answer.status_code == OUT_OF_STOCK:
            self.turned_away += 1
            return
        self.orders.append(answer.raise_for_status().json()["order_id"])

    async def all_shipped(self) -> bool | None:
        """None while an order is on its way."""
        for order_id in self.orders:
            if (await self.client.get(f"/orders/{order_id}")).raise_for_status().json()["status"] != "shipped":
                return None
        return True

    def counts(self) -> ShopCounts:
        with closing(sqlite3.connect(self.database)) as opened:
            return ShopCounts(*opened.execute(_COUNTS).fetchone())
