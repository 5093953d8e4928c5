"""From a URL to a store, with words that help when it is not one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.core.errors import CallerError, UnsafeStore
from headrace.wiring import Address, StoreKind, open_store, parse


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("sqlite:///jobs.db", "jobs.db"),
        ("sqlite:////srv/jobs.db", "/srv/jobs.db"),
        ("sqlite:///with%20space.db", "with space.db"),
        ("sqlite:///:memory:", ":memory:"),
        ("sqlite://", ":memory:"),
        (":memory:", ":memory:"),
        ("jobs.db", "jobs.db"),
        ("./deep/jobs.db", "./deep/jobs.db"),
    ],
)
def test_a_file_has_several_spellings(url: str, location: str) -> None:
    assert parse(url) == Address(StoreKind.SQLITE, location)


def test_a_server_keeps_its_url() -> None:
    for url in ("postgresql://me@host:5432/db?sslmode=require", "postgres://host/db"):
        assert parse(url) == Address(StoreKind.POSTGRES, url)


@pytest.mark.parametrize("url", ["", "sqlite:jobs.db", "sqlite://host/x", "mysql://h", "sqlite:///x.db?mode=ro"])
def test_what_is_no_store_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(CallerError) as caught:
        parse(url)
    assert "sqlite:///" in caught.value.hint


def test_a_port_that_is_none_is_refused_without_telling_the_password() -> None:
    with pytest.raises(CallerError) as caught:
        parse("postgresql://me:topsecret@host:port/db")
    assert "topsecret" not in str(caught.value)


def test_a_missing_driver_is_answered_with_its_install_line() -> None:
    # None in the table of modules is how Python itself marks what cannot be imported.
    program = """
import asyncio, sys
from headrace.core.errors import MissingExtra
from headrace.wiring import open_store

sys.modules["psycopg"] = None
try:
    asyncio.run(open_store("postgresql://host/db"))
except MissingExtra as error:
    print(error.hint)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == f"{sys.executable} -m pip install 'headrace[postgres]'", done.stderr


def test_a_missing_broker_driver_is_answered_with_its_install_line() -> None:
    program = """
import asyncio, sys
from headrace.core.errors import MissingExtra
from headrace.wiring import bus

async def main():
    async with bus("amqp://host/"):
        pass

sys.modules["aiormq"] = None
try:
    asyncio.run(main())
except MissingExtra as error:
    print(error.hint)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == f"{sys.executable} -m pip install 'headrace[rabbitmq]'", done.stderr


@pytest.mark.parametrize(
    "url", ["redis://me:secret@host/1", "host:5672", "", "amqp://me:secret@host:door/", "amqp://[::1/"]
)
async def test_a_bus_that_is_no_rabbitmq_is_refused(url: str) -> None:
    with pytest.raises(CallerError, match="URL") as caught:
        async with headrace.bus(url):
            pass
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("given", [{"exchange": ""}, {"prefetch": 0}, {"prefetch": 10_001}, {"dead_letters": ""}])
async def test_a_bus_that_cannot_work_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(CallerError, match="cannot work"):
        async with headrace.bus("amqp://host/", **given):
            pass


async def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnsafeStore, match="nowhere"):
        await open_store(f"sqlite:///{tmp_path}/nowhere/jobs.db")


def test_opening_sqlite_imports_no_other_driver() -> None:
    program = "import asyncio, sys; from headrace.wiring import open_store; asyncio.run(open_store(':memory:'))"
    check = "; assert not {'psycopg', 'pydantic', 'aiormq'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", program + check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_the_leases_of_a_store_are_opened_by_its_url(tmp_path: Path) -> None:
    async with headrace.leases(f"sqlite:///{tmp_path}/locks.db") as leases:
        assert (await leases.acquire("report", "a", 30.0)).granted
    async with headrace.leases(f"sqlite:///{tmp_path}/locks.db") as leases:
        assert not (await leases.acquire("report", "b", 30.0)).granted


async def test_leases_that_are_nowhere_are_refused() -> None:
    with pytest.raises(CallerError):
        async with headrace.leases("zookeeper://host/locks"):
            pass
