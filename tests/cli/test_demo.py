"""The demo is the first thing anybody runs: it must survive its own kill, and stop when asked."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.commands import demo_folder, environment_without

Started = Callable[..., "subprocess.Popen[str]"]
Command = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_demo_finishes_exactly_once_in_spite_of_a_kill(headrace_process: Command) -> None:
    done = headrace_process("demo", "--headless", "--json", "--charges", "1000")
    assert done.returncode == 0, done.stderr
    receipt = json.loads(done.stdout.splitlines()[-1])
    assert receipt["items"] == receipt["done"] == receipt["effects"] == 1_002
    assert (receipt["dead"], receipt["kills"], receipt["finish_lines"], receipt["findings"]) == (0, 1, 1, 0)
    assert receipt["takeovers"] >= 1
    assert receipt["seconds"] > 0


def test_an_interrupt_stops_the_demo(started: Started) -> None:
    demo = started("demo", "--headless", "--charges", "100000")
    assert demo.stderr is not None
    # The first line says that the workers are ready: from here on there is something to stop.
    assert "worker processes" in demo.stderr.readline()
    demo.send_signal(signal.SIGINT)
    assert demo.wait(3) == 130
    assert "headrace: interrupted" in demo.stderr.read()


def test_a_demo_has_the_directory_that_was_named_or_a_new_one(tmp_path: Path) -> None:
    for _ in range(2):
        assert demo_folder(tmp_path / "a" / "b", "shop") == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()
    made = [demo_folder(None, "shop") for _ in range(2)]
    assert len(set(made)) == 2
    for folder in made:
        assert folder.name.startswith("headrace-shop-")
        folder.rmdir()


def test_a_demo_hears_nothing_of_settings(own_modules: None) -> None:
    os.environ |= {"SHOP_HOME": "/elsewhere", "TILL_PORT": "1", "WORKSHOP": "stays"}
    left = environment_without("SHOP_", "TILL_")
    assert {"SHOP_HOME", "TILL_PORT"} & set(left) == set()
    assert left["WORKSHOP"] == "stays"


@pytest.mark.parametrize(
    ("terminal", "session", "headless", "opened"),
    [
        (True, "Session()", False, True),
        (True, "Session()", True, False),
        (True, "Session({}, json=True)", False, False),
        (False, "Session()", False, False),
    ],
)
def test_a_page_is_opened_for_people_only(
    terminal: bool, session: str, headless: bool, opened: bool, tmp_path: Path
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\necho $1 > {tmp_path / 'opened'}\n")
    browser.chmod(0o700)
    asked = f"open_page({session}, Path('page.html'), headless={headless})"
    program = f"from pathlib import Path\nfrom headrace.commands import Session, open_page\n{asked}"
    ours, theirs = pty.openpty() if terminal else os.pipe()
    try:
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=os.environ | {"BROWSER": f"{browser} %s"},
            stdout=theirs,
            check=True,
            timeout=60,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    found = (tmp_path / "opened").read_text() if (tmp_path / "opened").exists() else ""
    assert found == (f"{(tmp_path / 'page.html').as_uri()}\n" if opened else "")
