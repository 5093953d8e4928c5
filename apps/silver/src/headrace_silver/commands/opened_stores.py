"""Which database a command works on: what is stated first wins.

`--store URL`, then `PG_DSN`, then libpq's own variables if one of them names a server, and else the embedded store in
the file `silver.db` of the current directory, which needs nothing but this package.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.commands import Session
from headrace.errors import NotFound
from headrace_silver.stores.silver_store import SilverStore, StoreSettings, is_sqlite, open_store

EMBEDDED = "sqlite:///silver.db"
LIBPQ_VARIABLES = ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE")


def url_of(stated: str | None, environment: Mapping[str, str], default: str = EMBEDDED) -> str | None:
    """The URL to open; None stands for libpq's own variables."""
    url = stated or StoreSettings.read(environment).pg_dsn
    if url:
        return url
    return None if any(environment.get(name) for name in LIBPQ_VARIABLES) else default


def session_url(session: Session, default: str = EMBEDDED) -> str | None:
    return url_of(session.flags.get("store"), os.environ, default)


@contextmanager
def opened_store(session: Session, create: bool = False) -> Iterator[SilverStore]:
    """The store of a command, closed at its end; only with `create` may a file be made, with its tables."""
    url = session_url(session)
    path = embedded_file(url)
    if path is not None and not create and not path.exists():
        raise NotFound(f"there is no file {path}", "headrace silver put … makes one; PG_DSN or --store names another")
    with opened(url) as store:
        if path is not None and create:
            store.create()
        yield store


@contextmanager
def opened(url: str | None) -> Iterator[SilverStore]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def embedded_file(url: str | None) -> Path | None:
    """The file of an embedded store; None if a server has it."""
    if url is None or not is_sqlite(url):
        return None
    return Path(url.removeprefix("sqlite:///"))
