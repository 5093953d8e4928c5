"""What the page about the rig shows is typed into a real shell, in order, with real servers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import ROOT, blocks

from headrace.commands import environment_without
from headrace.testing.rig import places
from headrace.testing.rig.catalogue import SERVERS
from headrace.testing.rig.kept import ACTIONS
from headrace.testing.rig.proxy.faults import FORMS

PAGE = "docs/rig.md"
PAGE_S_MAX = 180


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of a reader's shell, whose rig is nobody else's; it is down afterwards."""
    programs = Path(sys.executable).parent
    variables = environment_without("HEADRACE_", "PYTEST_")
    variables |= {"PATH": f"{programs}:{os.environ['PATH']}", "HEADRACE_RIG": f"page-{os.getpid()}"}
    yield variables
    subprocess.run(["headrace", "rig", "down"], env=variables, capture_output=True, check=True)


def session_of(folder: Path) -> Iterator[str]:
    """The lines of the whole page; files are saved on the way, and programs compared with what they print."""
    program = ""
    for language, text in blocks(PAGE):
        if language == "python":
            named = re.match(r"# (\w+\.py)\n", text)
            assert named, f"a block does not say which file it is:\n{text}"
            (folder / named[1]).write_text(text)
            program = named[1]
        elif language == "text":
            (folder / "expected").write_text(text)
            yield f"python {program} > printed\ndiff expected printed\n"
        else:
            assert language == "sh"
            yield text


def test_what_the_page_about_the_rig_shows_is_run(shell: dict[str, str], tmp_path: Path) -> None:
    typed = "".join(session_of(tmp_path))
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", typed],
        cwd=tmp_path,
        env=shell,
        capture_output=True,
        text=True,
        timeout=PAGE_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    assert "down: postgres, redis, rabbitmq, s3" in done.stdout
    assert not (places.homes() / f"keeper-{shell['HEADRACE_RIG']}").exists()


def test_the_page_names_every_server_and_every_fault() -> None:
    text = (ROOT / PAGE).read_text("utf-8")
    assert [name for name in SERVERS if f"| `{name}` |" not in text] == []
    assert [word for word in FORMS if not re.search(rf"^\| `{word}\b", text, re.MULTILINE)] == []
    assert [word for word in ACTIONS if f"`{word}`" not in text] == []
