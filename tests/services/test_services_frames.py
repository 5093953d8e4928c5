"""The commands of several frames in one tree."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import typer

from headrace.cli.session import Session
from headrace.commands import Check, bad, service_commands, warning
from headrace.errors import CallerError, Unreachable
from headrace.services import Frame, HttpSettings, Part, Service, export_lines
from headrace.testing import HttpAnswer, HttpReceiver
from headrace.testing.service_process import exported_variables


@asynccontextmanager
async def opened(settings: HttpSettings, stop: asyncio.Event) -> AsyncIterator[Service]:
    yield Service()


@asynccontextmanager
async def no_parts(settings: HttpSettings) -> AsyncIterator[Mapping[str, Part]]:
    yield {}


SHOP = Frame("shop", HttpSettings, "SHOP_", ("-m", "shop"), {"counter": opened}, no_parts, {"counter": 1})
TILL = Frame("shop", HttpSettings, "TILL_", ("-m", "shop"), {"till": opened}, no_parts, {"till": 2})


@pytest.fixture
def own_environment() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def run(line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    document: dict[str, object] = json.loads(printed(line, capsys, is_json=True))
    return document


def printed(line: str, capsys: pytest.CaptureFixture[str], is_json: bool = False) -> str:
    tree = typer.Typer()
    service_commands(tree, SHOP, TILL)
    tree([line], obj=Session({}, is_json, False), standalone_mode=False)
    return capsys.readouterr().out


def test_each_service_is_one_command() -> None:
    tree = typer.Typer()
    service_commands(tree, SHOP, TILL)
    named = sorted(each.name or getattr(each.callback, "__name__", "") for each in tree.registered_commands)
    assert named == ["counter", "doctor", "settings", "till"]


def test_settings_of_all_are_listed(own_environment: None, capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["TILL_HTTP_PORT"] = "7"
    listed = run("settings", capsys)
    assert (listed["SHOP_HTTP_PORT"], listed["TILL_HTTP_PORT"]) == (None, "7")


def test_settings_are_printed_as_they_are(own_environment: None, capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["TILL_HTTP_HOST"] = "[red]x[/y]"
    assert "[red]x[/y]" in printed("settings", capsys)


def test_doctor_examines_all(own_environment: None, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.dumps(run("doctor", capsys))
    assert "shop counter" in told
    assert "shop till" in told


async def test_doctor_tells_what_the_application_knows_besides() -> None:
    async def knows(settings: HttpSettings) -> list[Check]:
        return [warning("till", f"{settings.http_port} is nearly empty", "fill it")]

    async def is_away(settings: HttpSettings) -> list[Check]:
        raise Unreachable("the till does not answer")

    async def is_wrong(settings: HttpSettings) -> list[Check]:
        raise CallerError("the till has no drawer", "get one")

    found = await replace(SHOP, checks=knows).examine({"SHOP_HTTP_PORT": "7"})
    assert found[1] == warning("till", "7 is nearly empty", "fill it")
    # A part that does not answer says so itself.
    assert [each.name for each in await replace(SHOP, checks=is_away).examine({})] == ["settings", "shop counter"]
    assert (await replace(SHOP, checks=is_wrong).examine({}))[1] == bad("checks", "the till has no drawer", "get one")


def test_doctor_names_variables_that_are_misspelt(own_environment: None, capsys: pytest.CaptureFixture[str]) -> None:
    os.environ |= {"SHOP_HTTP_PROT": "1", "SHOP_PASSWORD": "x", "TILL_HTTP_PORT": "2"}
    told = json.dumps(run("doctor", capsys))
    assert "SHOP_HTTP_PROT" in told
    assert "is SHOP_HTTP_PORT meant?" in told
    assert "SHOP_PASSWORD" not in told
    assert "TILL_HTTP_PORT" not in told


def test_up_says_how_other_commands_find_the_same_data() -> None:
    variables = {"SHOP_HOME": "/a b", "SHOP_KEY": "it's=1"}
    said, unset, *exports = export_lines(variables, unset=("SHOP_STORE",))
    assert (said, unset) == ("commands in another shell work on the same data after:", "unset SHOP_STORE")
    assert exported_variables(exports) == variables
    assert list(export_lines({}, unset=("SHOP_STORE",))) == []


async def test_doctor_takes_no_other_program_for_a_service() -> None:
    bakery = HttpAnswer(200, {"status": "alive", "service": "bakery-counter"})
    with HttpReceiver(lambda _request: bakery) as other:
        port = other.address.partition(":")[2]
        found = (await SHOP.examine({"SHOP_HTTP_PORT": port}))[-1]
    assert (found.state, found.name) == ("warning", "shop counter")
    assert found.found == f"another program answers at 127.0.0.1 port {port}, which is not shop counter"
