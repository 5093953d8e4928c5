"""The service `orders` as it is started, its settings, and what it says about them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from scheduler_processes import services
from waiting import until

from headrace.errors import CallerError
from headrace.services import table
from headrace_scheduler.orders.database import OrdersDatabase
from headrace_scheduler.orders.order_handlers import open_order_handlers
from headrace_scheduler.orders.settings import PREFIX, OrdersSettings, load_orders

PAGE = Path(__file__).parents[3] / "docs" / "scheduler.md"
PATIENCE_S = 60.0


def test_an_order_goes_from_one_service_to_the_other(embedded_environment: dict[str, str], tmp_path: Path) -> None:
    # The worker's port is not that of orders, though both find it in one environment.
    environment = {**embedded_environment, "WORKER_POLL_INTERVAL_MS": "50", "WORKER_HTTP_PORT": "1"}
    with services(environment, tmp_path, "all") as (scheduler,):
        known = {**environment, "ORDERS_WORKER_URL": scheduler.url}
        with (
            services(known, tmp_path, "orders") as (orders,),
            httpx.Client(base_url=orders.url, timeout=PATIENCE_S) as client,
        ):
            assert client.get("/readyz").status_code == 200
            assert client.put("/inventory/tea", json={"stock": 1, "price": 5_000}).status_code == 200
            body = {"customer_id": "an", "items": [{"sku": "tea", "quantity": 1}]}
            made = client.post("/orders", json=body)
            assert (made.status_code, made.json()["status"]) == (201, "pending")
            until(
                lambda: client.get(made.headers["location"]).json()["status"] == "shipped",
                "the order is shipped",
                PATIENCE_S,
            )
            assert (orders.stop(), scheduler.stop()) == (0, 0)


def test_nothing_at_all_means_no_orders() -> None:
    settings = load_orders({})
    assert (settings.http_port, settings.worker_url, settings.configured) == (None, "http://127.0.0.1:8080", False)
    with pytest.raises(CallerError, match="ORDERS_PG_DSN"):
        _ = settings.engine_url


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({"ORDERS_PG_DSN": "postgresql://shop@db/orders"}, "postgresql://shop@db/orders"),
        ({"ORDERS_PG_DSN": "postgresql://db/x", "SCHEDULER_HOME": "here"}, "postgresql://db/x"),
        ({"ORDERS_PG_DSN": "user=shop dbname='my orders'"}, "postgresql:///?dbname=my%20orders&user=shop"),
        ({"SCHEDULER_HOME": "here"}, "sqlite:///here/orders.db"),
    ],
)
def test_the_database_is_named_by_the_environment(environment: dict[str, str], url: str) -> None:
    assert load_orders(environment).engine_url == url


async def test_a_database_is_found_by_key_and_value(orders_database: str) -> None:
    words = make_conninfo(**conninfo_to_dict(orders_database))
    async with OrdersDatabase(load_orders({"ORDERS_PG_DSN": words})) as database:
        assert await (await database.engine()).one("article_of", sku="none") is None


@pytest.mark.parametrize(
    ("variable", "value"),
    [("ORDERS_WORKER_URL", "127.0.0.1:8080"), ("ORDERS_PAYMENT_MAX", "-1"), ("ORDERS_HTTP_PORT", "65536")],
)
def test_what_cannot_work_is_refused_by_name(variable: str, value: str) -> None:
    with pytest.raises(CallerError, match=variable):
        load_orders({variable: value})


def test_a_dsn_that_cannot_be_read_is_refused_and_not_repeated() -> None:
    with pytest.raises(CallerError, match="ORDERS_PG_DSN") as refused:
        _ = load_orders({"ORDERS_PG_DSN": "password=secret nonsense"}).engine_url
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("environment", "known"),
    [({}, set()), ({"ORDERS_PG_DSN": "postgresql://127.0.0.1:1/x"}, {"payment", "fulfilment", "refund", "restock"})],
)
async def test_a_worker_knows_the_jobs_of_orders_if_they_have_a_database(
    environment: dict[str, str], known: set[str]
) -> None:
    """It starts though the database does not answer."""
    async with open_order_handlers(environment) as handlers:
        assert handlers.keys() == known


def test_the_settings_of_both_are_listed(
    headrace_command: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    told = headrace_command("scheduler", "settings", "--json", ORDERS_PG_DSN="postgresql://shop:secret@db/orders")
    listed = json.loads(told.stdout)
    assert (listed["WORKER_BUCKETS"], listed["ORDERS_PG_DSN"]) == ("16", "…")
    assert listed["ORDERS_WORKER_URL"] == "http://127.0.0.1:8080"


def test_the_page_tells_every_setting_of_orders() -> None:
    assert table(OrdersSettings, PREFIX) in PAGE.read_text("utf-8")
