"""Programs that open a transaction of their own and submit in it: by psycopg, SQLAlchemy and Django.

A caller's block commits when it ends and rolls back when it raises, each in the manner of its library.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import django
import psycopg
import sqlalchemy
from django.conf import settings
from django.db import connections, transaction
from django.db.utils import ConnectionHandler
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool


class Undo(Exception):
    """The caller's own work failed."""


@contextmanager
def by_psycopg(url: str) -> Iterator[Any]:
    with psycopg.connect(url) as connection:
        yield connection


@contextmanager
def by_psycopg_block(url: str) -> Iterator[Any]:
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection, connection.transaction():
        yield connection


@contextmanager
def by_sqlalchemy(url: str) -> Iterator[Any]:
    with engine_of(url).begin() as connection:
        yield connection


@contextmanager
def by_sqlalchemy_step_by_step(url: str) -> Iterator[Any]:
    """Nothing but the submit tells SQLAlchemy that there is something to commit."""
    with engine_of(url).connect() as connection:
        yield connection
        connection.commit()


@contextmanager
def by_sqlalchemy_session(url: str) -> Iterator[Any]:
    with Session(engine_of(url)) as session:
        yield session
        session.commit()


@contextmanager
def by_django(url: str) -> Iterator[Any]:
    with django_connection(url) as connection, transaction.atomic():
        yield connection


@contextmanager
def django_connection(url: str) -> Iterator[Any]:
    """Django's default connection for the time of the block."""
    if not settings.configured:
        settings.configure()
        django.setup()
    parts = urlsplit(url)
    place = {"NAME": parts.path[1:], "HOST": parts.hostname, "PORT": parts.port, "USER": parts.username}
    handler = ConnectionHandler({"default": {"ENGINE": "django.db.backends.postgresql", **place}})
    connections["default"] = handler["default"]
    try:
        yield connections["default"]
    finally:
        connections["default"].close()
        del connections["default"]


@asynccontextmanager
async def by_psycopg_async(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@asynccontextmanager
async def by_sqlalchemy_async(url: str) -> AsyncIterator[Any]:
    async with async_engine_of(url).begin() as connection:
        yield connection


@asynccontextmanager
async def by_sqlalchemy_async_session(url: str) -> AsyncIterator[Any]:
    async with AsyncSession(async_engine_of(url)) as session:
        yield session
        await session.commit()


@asynccontextmanager
async def by_sqlalchemy_on_asyncpg(url: str) -> AsyncIterator[Any]:
    async with AsyncSession(async_engine_of(url, "asyncpg")) as session:
        yield session
        await session.commit()


def engine_of(url: str, **options: Any) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(_with_driver(url, "psycopg"), poolclass=NullPool, **options)


def async_engine_of(url: str, driver: str = "psycopg", **options: Any) -> Any:
    return create_async_engine(_with_driver(url, driver), poolclass=NullPool, **options)


def _with_driver(url: str, driver: str) -> str:
    return f"postgresql+{driver}://{url.partition('://')[2]}"


CALLERS = (by_psycopg, by_psycopg_block, by_sqlalchemy, by_sqlalchemy_step_by_step, by_sqlalchemy_session, by_django)
ASYNC_CALLERS = (by_psycopg_async, by_sqlalchemy_async, by_sqlalchemy_async_session, by_sqlalchemy_on_asyncpg)
