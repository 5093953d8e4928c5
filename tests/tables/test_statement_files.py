"""Statements and migrations of an application are read from the files of its package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headrace
from headrace.tables import Statements

Package = Callable[..., str]


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Package]:
    """Make a package with these files below `sql/`; its name."""
    made: list[str] = []

    def make(name: str, **files: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").touch()
        for place, text in files.items():
            file = folder / "sql" / f"{place.replace('__', '/')}.sql"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        made.append(name)
        return name

    sys.path.insert(0, str(tmp_path))
    yield make
    sys.path.remove(str(tmp_path))
    for name in made:
        sys.modules.pop(name, None)


GUESTS = """
-- name: add_guest
-- A sentence about it.
INSERT INTO guest VALUES (:name)

-- name: guests
SELECT name, 'INSERT INTO' FROM guest -- not an UPDATE
"""


async def test_a_program_has_its_tables_by_connecting(package: Package, tmp_path: Path) -> None:
    files = {"sqlite__guests": GUESTS, "sqlite__migrations__0001_guests": "CREATE TABLE guest (name TEXT PRIMARY KEY)"}
    tables = Statements(package("hotel", **files))
    for name in ("Lan", "Minh"):
        async with headrace.connect(f"sqlite:///{tmp_path}/store.db", tables=tables) as engine:
            await engine.run("add_guest", name=name)
            assert name in [guest for guest, _ in await engine.rows("guests")]


async def test_the_same_statements_work_on_tables_of_their_own(package: Package, tmp_path: Path) -> None:
    guests = "-- creates: guest\nCREATE TABLE guest (name TEXT PRIMARY KEY)\n\n"
    made = f"{guests}-- creates: guest_room\nCREATE TABLE guest_room (x)"
    name = package("motel", sqlite__guests=GUESTS, sqlite__migrations__0001_guests=made)
    whole = Statements(name)
    apart = Statements(name, copy="trial", renamed=(("guest", "trial_guest"),))
    assert whole.created("sqlite") == {"guest", "guest_room"}
    store = f"sqlite:///{tmp_path}/store.db"
    for night in range(2):
        async with headrace.connect(store, tables=whole) as engine, headrace.connect(store, tables=apart) as trial:
            await engine.run("add_guest", name=f"Lan {night}")
            await trial.run("add_guest", name=f"Minh {night}")
            assert {guest for guest, _ in await engine.rows("guests")} <= {"Lan 0", "Lan 1"}
            assert {guest for guest, _ in await trial.rows("guests")} <= {"Minh 0", "Minh 1"}


def test_a_statement_that_only_reads_is_known(package: Package) -> None:
    found = Statements(package("inn", sqlite__guests=GUESTS)).named("sqlite")
    assert {name: statement.reads for name, statement in found.items()} == {"add_guest": False, "guests": True}
    for text in ("SELECT 1 FOR UPDATE", "WITH x AS (DELETE FROM y RETURNING 1) SELECT * FROM x", "replace into x"):
        assert not type(found["guests"]).of("x", text).reads
    assert type(found["guests"]).of("x", "SELECT replace(updated, 'a', 'b') FROM x").reads


def test_what_reads_alike_stands_once_and_is_in_every_dialect(package: Package) -> None:
    name = package("common", shared__guests=GUESTS, sqlite__more="-- name: own\nSELECT 1", postgres__more="")
    assert set(Statements(name).named("sqlite")) == {"add_guest", "guests", "own"}
    assert set(Statements(name).named("postgres")) == {"add_guest", "guests"}
    hidden = package("hidden", shared__guests=GUESTS, sqlite__guests=GUESTS)
    with pytest.raises(headrace.CallerError, match="two statements called add_guest"):
        Statements(hidden).named("sqlite")


def test_two_statements_of_one_name_are_refused(package: Package) -> None:
    with pytest.raises(headrace.CallerError, match="two statements called guests"):
        Statements(package("twice", sqlite__a=GUESTS, sqlite__b=GUESTS.replace("add_guest", "add"))).named("sqlite")


def test_migrations_come_in_order_and_in_pieces(package: Package) -> None:
    pieces = "-- creates: a\nCREATE TABLE a (b)\n\n-- creates: b\nCREATE TABLE b (c)\n"
    name = package("pieces", sqlite__migrations__0002_more="SELECT 1", sqlite__migrations__0001_first=pieces)
    first, second = Statements(name).migrations("sqlite")
    assert [(part.creates, part.text) for part in first.parts] == [
        ("a", "CREATE TABLE a (b)"),
        ("b", "CREATE TABLE b (c)"),
    ]
    assert (second.number, second.name, [part.creates for part in second.parts]) == (2, "more", [""])
    assert Statements(name).migrations("postgres") == ()


def test_migrations_with_a_gap_are_refused(package: Package) -> None:
    with pytest.raises(headrace.CallerError, match="not numbered"):
        Statements(package("gap", sqlite__migrations__0002_more="SELECT 1")).migrations("sqlite")
    with pytest.raises(headrace.CallerError, match="is no migration"):
        Statements(package("odd", sqlite__migrations__first="SELECT 1")).migrations("sqlite")
