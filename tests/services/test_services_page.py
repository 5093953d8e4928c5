"""The shop of docs/services.md: a service, two workers, a leader, `up`, `demo` and `doctor` in one small file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pages import ROOT, block
from waiting import until

from headrace.services import Program, table
from headrace.testing import ServiceProcess
from headrace.testing.rig.children import alive_of, identities

PAGE = "docs/services.md"
FRAME_LINES_MAX = 300
READY_S_MAX = 90.0


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(block(PAGE, "python"))
    return tmp_path


def called(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", **variables}
    command = [sys.executable, "-m", "shop", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(params=["sqlite", "postgres"])
def variables(request: pytest.FixtureRequest) -> dict[str, str]:
    """What changes when the shop moves to another store: one URL."""
    return {} if request.param == "sqlite" else {"SHOP_STORE": request.getfixturevalue("postgres_database")}


@contextmanager
def up(folder: Path, **variables: str) -> Iterator[ServiceProcess]:
    """The shop, which takes orders."""
    command, environment = (sys.executable, "-m", "shop", "up"), {**os.environ, "SHOP_HTTP_PORT": "0", **variables}
    process = ServiceProcess(Program("shop", command, environment), folder / "talk", folder)
    try:
        assert process.line_with("orders are taken at http://").result(READY_S_MAX) == process.lines[1]
        assert process.lines[0].startswith("shop api is ready at http://")
        yield process
    finally:
        assert process.stop() == 0, (folder / "talk").read_text()


def ordered(url: str, items: int, key: str) -> str:
    answer = httpx.post(f"{url}/orders?items={items}", headers={"Idempotency-Key": key}, trust_env=False, timeout=60.0)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["order"])


def state(url: str, order: str) -> dict[str, Any]:
    answer: dict[str, Any] = httpx.get(f"{url}/orders/{order}", trust_env=False, timeout=60.0).json()
    return answer


def test_the_frame_is_small() -> None:
    assert len(block(PAGE, "python").splitlines()) < FRAME_LINES_MAX


def test_orders_are_charged_although_a_worker_is_killed(shop: Path, variables: dict[str, str]) -> None:
    with up(shop, **variables) as process:
        url = process.url
        order = ordered(url, 2_000, "first")
        assert ordered(url, 2_000, "first") == order
        until(lambda: state(url, order)["charged"] > 50, "work has begun")
        until(lambda: len(process.below("headrace.cli.child")) == 2, "both workers are there")
        first = process.below("headrace.cli.child")
        os.kill(first[0], signal.SIGKILL)
        until(lambda: len(set(process.below("headrace.cli.child")) - {first[0]}) == 2, "another worker")
        until(lambda: state(url, order)["state"] == "finished", "the order is charged", 120)
        assert state(url, order)["charged"] == 2_000
        assert httpx.get(f"{url}/readyz", trust_env=False).json()["checks"]["store"]["ok"]
        assert httpx.get(f"{url}/orders/none", trust_env=False).status_code == 404
        assert "headrace_http_requests" in httpx.get(f"{url}/metrics", trust_env=False).text
        below = process.below()
    talk = (shop / "talk").read_text()
    assert f"worker {first[0]} was killed by SIGKILL; another one starts" in talk
    assert "orders.open" in talk
    assert not any(Path(f"/proc/{pid}/fd").exists() for pid in below)
    assert (shop / "shop.db").exists() == (not variables)


def test_everything_ends_with_the_parent(shop: Path) -> None:
    command, environment = (sys.executable, "-m", "shop", "up"), {**os.environ, "SHOP_HTTP_PORT": "0"}
    process = ServiceProcess(Program("shop", command, environment), shop / "talk", shop)
    process.line_with("orders are taken at").result(READY_S_MAX)
    until(lambda: len(process.below()) == 3, "the service and two workers are there")
    below = identities(process.below())
    process.kill()
    assert len(below) == 3
    until(lambda: not alive_of(below), "all have ended")


def test_a_setting_that_cannot_work_ends_everything(shop: Path) -> None:
    done = called(shop, "up", SHOP_LOOK_S="0")
    assert done.returncode == 2
    assert "SHOP_LOOK_S = 0 is not 0.1 or more" in done.stderr


def test_a_port_that_is_taken_ends_everything_with_its_name(shop: Path) -> None:
    with up(shop) as process:
        port = process.url.rpartition(":")[2]
        done = called(shop, "up", SHOP_HTTP_PORT=port)
    assert done.returncode == 1
    assert f"shop api cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert "SHOP_HTTP_PORT" in done.stderr
    assert "another one starts" not in done.stderr


def test_the_demo_has_a_receipt(shop: Path) -> None:
    done = called(shop, "demo", "--items", "50", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"items": 50, "charged": 50}
    assert "everything was charged once" in called(shop, "demo", "--items", "3").stdout


def test_the_doctor_asks_parts_and_services(shop: Path) -> None:
    with up(shop) as process:
        port = process.url.rpartition(":")[2]
        done = called(shop, "doctor", "--json", SHOP_HTTP_PORT=port)
    found = {check["name"]: check["state"] for check in json.loads(done.stdout)["checks"]}
    assert (done.returncode, found) == (0, {"settings": "ok", "store": "ok", "shop api": "ok"})
    gone = called(shop, "doctor", "--json", SHOP_HTTP_PORT=port)
    assert {check["name"]: check["state"] for check in json.loads(gone.stdout)["checks"]}["shop api"] == "warning"
    wrong = called(shop, "doctor", SHOP_STORE="postgresql://nobody@127.0.0.1:1/none")
    assert (wrong.returncode, "bad" in wrong.stdout) == (1, True)
    assert called(shop, "doctor", SHOP_WORKERS="0").returncode == 1


def test_the_settings_are_listed_as_the_page_shows_them(shop: Path) -> None:
    done = called(shop, "settings", "--json", SHOP_API_KEY="hush" * 8, SHOP_WORKERS="3")
    values = json.loads(done.stdout)
    assert (values["SHOP_WORKERS"], values["SHOP_API_KEY"]) == ("3", "…")
    unset = json.loads(called(shop, "settings", "--json").stdout)
    assert (unset["SHOP_API_KEY"], unset["SHOP_HTTP_PORT"]) == (None, None)
    namespace: dict[str, Any] = {"__name__": "shop"}
    sys.modules["shop"] = type(sys)("shop")
    try:
        exec(compile(block(PAGE, "python"), "shop.py", "exec"), vars(sys.modules["shop"]))  # noqa: S102
        namespace = vars(sys.modules["shop"])
        assert table(namespace["Settings"], "SHOP_") in (ROOT / PAGE).read_text("utf-8")
    finally:
        del sys.modules["shop"]


def test_help_names_the_commands(shop: Path) -> None:
    done = called(shop, "--help")
    assert [word for word in ("api", "up", "doctor", "settings", "demo") if word not in done.stdout] == []
    assert "SHOP_HTTP_PORT" in called(shop, "api", "--help").stdout
