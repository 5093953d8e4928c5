"""Connections of PyMySQL by a URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pymysql
from pymysql.connections import Connection

ANSWER_S_MAX = 60


@contextmanager
def mysql_connection(url: str, autocommit: bool = True) -> Iterator[Connection[Any]]:
    """A connection that ends with the block, whatever has become of it."""
    place = urlsplit(url)
    connection: Connection[Any] = pymysql.connect(
        host=place.hostname,
        port=place.port or 0,
        user=place.username,
        password=place.password or "",
        database=place.path.lstrip("/"),
        autocommit=autocommit,
        connect_timeout=ANSWER_S_MAX,
        read_timeout=ANSWER_S_MAX,
    )
    try:
        yield connection
    finally:
        if connection.open:
            connection.close()
