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
from smap_processes import Running, Town, town
from waiting import until

UP_S_MAX = 60.0


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Town]:
    with town({}, tmp_path) as made:
        yield made


def up_from(place: Town, folder: Path, port: int) -> Running:
    environment = {"PATH": os.environ["PATH"], "SMAP_ANALYSTS": "0", "SMAP_SIMULATED": "1", "SMAP_HTTP_PORT": str(port)}
    place.running.append(Running(["-m", "headrace", "smap", "up"], environment, folder))
    return place.running[-1]


def listening(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def four_free_ports() -> int:
    """The first of four that are free side by side."""
    for first in range(20_000 + os.getpid() % 10_000, 32_000, 4):
        taken = []
        try:
            for port in range(first, first + 4):
                taken.append(listening(port))
        except OSError:
            continue
        else:
            return first
        finally:
            for one in taken:
                one.close()
    raise AssertionError("no four ports are free")


def said_by(tmp_path: Path) -> str:
    return "".join(log.read_text("utf-8") for log in tmp_path.glob("*-up.log"))


@pytest.mark.parametrize("number", [0, 3])
def test_up_ends_with_words_if_a_port_is_taken(number: int, place: Town, tmp_path: Path) -> None:
    first = four_free_ports()
    with closing(listening(first + number)):
        up = up_from(place, tmp_path, first)
        assert up.process.wait(UP_S_MAX) == 1
        said = said_by(tmp_path)
        name = ("project", "collector", "analytics", "insight")[number]
        assert f"smap {name} cannot listen on 127.0.0.1 port {first + number}" in said
        assert "SMAP_HTTP_PORT" in said
        assert "another one starts" not in said


def test_a_project_links_to_its_report_in_the_other_service(place: Town, tmp_path: Path) -> None:
    first = four_free_ports()
    up = up_from(place, tmp_path, first)
    until(lambda: sum("is ready at" in line for line in up.lines) == 4, "all four are ready", UP_S_MAX)
    order = {"keywords": ["VF3"], "id": "mine"}
    made = httpx.post(f"http://127.0.0.1:{first}/projects", json=order, trust_env=False).json()
    assert made["links"]["report"] == f"http://127.0.0.1:{first + 3}/projects/mine/report"
    assert httpx.get(made["links"]["report"], trust_env=False).headers["content-type"].startswith("text/html")
    assert up.stop() == 0


def test_a_port_that_is_taken_after_a_death_is_waited_for(place: Town, tmp_path: Path) -> None:
    first = four_free_ports()
    up = up_from(place, tmp_path, first)
    until(lambda: sum("is ready at" in line for line in up.lines) == 4, "all four are ready", UP_S_MAX)
    (killed,) = place.children_named("analytics", up.process.pid)
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
    until(lambda: sum("analytics is ready at" in line for line in up.lines) == 2, "it is there again", UP_S_MAX)
    assert up.stop() == 0
