"""The REST interface of orders."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from headrace.errors import NotFound
from headrace.http import Problem, seed_of
from headrace_scheduler.orders.order_book import OrderBook
from headrace_scheduler.orders.values import OutOfStock, PlacedOrder, StockArticle

TEXT_CHARS_MAX = 200
ITEMS_MAX = 100
QUANTITY_MAX = 100_000
STOCK_MAX = 10**12
# With all the limits at once the total is still a number of 64 bits.
PRICE_MAX = 10**11

Name = Annotated[StrictStr, Field(min_length=1, max_length=TEXT_CHARS_MAX, pattern=r"^[^\x00]+$")]
Sku = Annotated[str, Path(min_length=1, max_length=TEXT_CHARS_MAX, pattern=r"^[^\x00]+$")]


class ArticleBody(BaseModel):
    """The body of `PUT /inventory/{sku}`."""

    model_config = ConfigDict(extra="forbid")

    stock: Annotated[StrictInt, Field(ge=0, le=STOCK_MAX)]
    price: Annotated[StrictInt, Field(ge=0, le=PRICE_MAX)]


class OrderItemBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sku: Name
    quantity: Annotated[StrictInt, Field(ge=1, le=QUANTITY_MAX)]


class OrderBody(BaseModel):
    """The body of `POST /orders`."""

    model_config = ConfigDict(extra="forbid")

    customer_id: Name
    items: Annotated[list[OrderItemBody], Field(min_length=1, max_length=ITEMS_MAX)]

    @property
    def quantities(self) -> dict[str, int]:
        """By article; one that is named twice is ordered once, in the sum."""
        found: dict[str, int] = {}
        for item in self.items:
            found[item.sku] = found.get(item.sku, 0) + item.quantity
        return found


def order_document(order: PlacedOrder) -> dict[str, Any]:
    return {
        "order_id": order.order_id,
        "status": order.status,
        "items": [{"sku": item.sku, "quantity": item.quantity} for item in order.items],
        "total": order.total,
    }


def article_document(article: StockArticle) -> dict[str, Any]:
    return {"sku": article.sku, "stock": article.stock, "price": article.price, "version": article.version}


def order_routes(book: OrderBook) -> APIRouter:
    router = APIRouter()

    @router.post("/orders", status_code=201)
    async def place(body: OrderBody, request: Request, response: Response) -> dict[str, Any]:
        try:
            order = await book.place(seed_of(request), body.customer_id, body.quantities)
        except OutOfStock as error:
            raise Problem(409, "out-of-stock", str(error)) from None
        response.headers["Location"] = f"/orders/{order.order_id}"
        return order_document(order)

    @router.get("/orders/{order_id}")
    async def show(order_id: UUID) -> dict[str, Any]:
        order = await book.find(str(order_id))
        if order is None:
            raise NotFound(f"there is no order {order_id}")
        return order_document(order)

    @router.get("/inventory/{sku}")
    async def article(sku: Sku) -> dict[str, Any]:
        return article_document(await book.article(sku))

    @router.put("/inventory/{sku}")
    async def put_article(sku: Sku, body: ArticleBody) -> dict[str, Any]:
        return article_document(await book.put_article(sku, body.stock, body.price))

    @router.delete("/inventory/{sku}", status_code=204)
    async def withdraw(sku: Sku) -> None:
        await book.withdraw_article(sku)

    return router
