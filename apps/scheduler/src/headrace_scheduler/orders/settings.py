"""What the environment says about orders. The scheduler's services read it too: they run the handlers of orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from headrace.errors import CallerError
from headrace.services import HttpSettings, Sources, read, setting

PREFIX = "ORDERS_"
HTTP_PORT = 8095
DATABASE_FILE = "orders.db"
AMOUNT_MAX = 10**18


@dataclass(frozen=True, slots=True)
class OrdersSettings(HttpSettings):
    """The settings of the service `orders` and of the handlers of orders."""

    http_port: int | None = setting(
        None, "the port to listen on, 0: any that is free", low=0, high=65_535, without=f"{HTTP_PORT}"
    )
    pg_dsn: str = setting(
        "",
        "the PostgreSQL with the tables of orders, as a URL or in libpq's key=value form",
        secret=True,
        without="a SQLite file in SCHEDULER_HOME; without that too, no worker knows the jobs of orders",
    )
    worker_url: str = setting("http://127.0.0.1:8080", "the scheduler's REST interface, where jobs are created")
    worker_api_key: str = setting("", "the scheduler's API key", secret=True, without="none is sent")
    payment_max: int | None = setting(
        None, "a payment over this amount in VND is refused", low=0, high=AMOUNT_MAX, without="none is"
    )
    home: Path | None = setting(
        None,
        "a directory: without ORDERS_PG_DSN the tables are in a SQLite file there",
        without="PostgreSQL",
        variable="SCHEDULER_HOME",
    )

    def __post_init__(self) -> None:
        if not self.worker_url.startswith(("http://", "https://")):
            raise CallerError(f"ORDERS_WORKER_URL = {self.worker_url} is no URL of HTTP", "write http://127.0.0.1:8080")

    @property
    def configured(self) -> bool:
        """There is a database for orders."""
        return bool(self.pg_dsn) or self.home is not None

    @property
    def engine_url(self) -> str:
        """Where the tables of orders are."""
        if self.pg_dsn:
            return self.pg_dsn if "://" in self.pg_dsn else _url_of(self.pg_dsn)
        if self.home is None:
            raise CallerError(
                "ORDERS_PG_DSN is not set", "write postgresql://user@host/database, or set SCHEDULER_HOME for SQLite"
            )
        return f"sqlite:///{self.home / DATABASE_FILE}"


def load_orders(environment: Mapping[str, str]) -> OrdersSettings:
    """What a service of the scheduler knows of orders."""
    return read(OrdersSettings, Sources(PREFIX, environment))


def _url_of(words: str) -> str:
    """`host=… dbname=…` as a URL."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        known = conninfo_to_dict(words)
    except ProgrammingError:
        raise CallerError("ORDERS_PG_DSN cannot be read", "write postgresql://user@host/database") from None
    # libpq knows no plus sign for a space.
    return f"postgresql:///?{urlencode({name: str(known[name]) for name in sorted(known)}, quote_via=quote)}"
