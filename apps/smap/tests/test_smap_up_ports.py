"""`up` on ports that are known, so that services learn where reports are, and on ports that are taken: at the start
that ends it in words, later it is waited for."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from smap_processes import Town, town
from waiting import until

from headrace.testing import ServiceProcess
from headrace.testing.rig import ports

UP_S_MAX = 180.0


@pytest.fixture
def first() -> Iterator[int]:
    """The first of four ports side by side."""
    found = ports.reserve_port(side_by_side=4)
    yield found
    for port in range(found, found + 4):
        ports.give_back(port)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Town]:
    environment = {"PATH": os.environ["PATH"], "SMAP_ANALYSTS": "0", "SMAP_SIMULATED": "1"}
    with town(environment, tmp_path) as made:
        yield made


def up_from(place: Town, port: int) -> ServiceProcess:
    return place.start(["up"], SMAP_HTTP_PORT=str(port))


def listening(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def said_by(tmp_path: Path) -> str:
    return "".join(log.read_text("utf-8") for log in tmp_path.glob("*-up.log"))


@pytest.mark.parametrize("number", [0, 3])
def test_up_ends_with_words_if_a_port_is_taken(number: int, first: int, place: Town, tmp_path: Path) -> None:
    with closing(listening(first + number)):
        up = up_from(place, first)
        assert up.process.wait(UP_S_MAX) == 1
        said = said_by(tmp_path)
        name = ("project", "collector", "analytics", "insight")[number]
        assert f"smap {name} cannot listen on 127.0.0.1 port {first + number}" in said
        assert "SMAP_HTTP_PORT" in said
        assert "another one starts" not in said


def test_a_project_links_to_its_report_in_the_other_service(first: int, place: Town, tmp_path: Path) -> None:
    up = up_from(place, first)
    up.line_with("is ready at", 4).result(UP_S_MAX)
    order = {"keywords": ["VF3"], "id": "mine"}
    made = httpx.post(f"http://127.0.0.1:{first}/projects", json=order, trust_env=False, timeout=60).json()
    assert made["links"]["report"] == f"http://127.0.0.1:{first + 3}/projects/mine/report"
    assert (
        httpx.get(made["links"]["report"], trust_env=False, timeout=60).headers["content-type"].startswith("text/html")
    )
    assert up.stop() == 0


def test_a_port_that_is_taken_after_a_death_is_waited_for(first: int, place: Town, tmp_path: Path) -> None:
    up = up_from(place, first)
    up.line_with("is ready at", 4).result(UP_S_MAX)
    (killed,) = up.below("smap", "analytics")
    os.kill(killed, signal.SIGKILL)

    def taken() -> socket.socket | None:
        try:
            return listening(first + 2)
        except OSError:
            return None

    with closing(until(taken, "its port is free")):
        until(
            lambda: "ended with exit code 1; another one starts" in said_by(tmp_path),
            "it cannot come back yet",
            UP_S_MAX,
        )
    up.line_with("analytics is ready at", 2).result(UP_S_MAX)
    assert up.stop() == 0
