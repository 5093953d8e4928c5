"""Applications bring their own commands: found by their entry point, imported when called, alone in their faults."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli.app import COMMANDS, build
from headrace.cli.apps import installed

Command = Callable[..., "subprocess.CompletedProcess[str]"]

GOOD = '''"""Grow plants in rows.

More about plants.
"""
import typer

def register(tree):
    app = typer.Typer(name="plants", help="Grow plants in rows.", no_args_is_help=True)
    app.command()(water)
    app.command()(sow)
    tree.add_typer(app)

def water(context: typer.Context):
    print("watered")

def sow(context: typer.Context):
    print("sown")
'''


@pytest.fixture
def install(tmp_path: Path, own_modules: None) -> Callable[..., None]:
    """Install an application: a module, and what its distribution declares."""

    def put(name: str, module: str, text: str, attribute: str = "register") -> None:
        home = tmp_path / f"site-{module}"
        (home / f"{module}-1.0.dist-info").mkdir(parents=True)
        (home / f"{module}.py").write_text(text)
        declared = home / f"{module}-1.0.dist-info"
        (declared / "entry_points.txt").write_text(f"[headrace.apps]\n{name} = {module}:{attribute}\n")
        (declared / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        sys.path.append(str(home))

    return put


def test_an_application_is_listed_with_its_sentence_and_not_imported(
    install: Callable[..., None], headrace_command: Command
) -> None:
    install("plants", "plantsapp", GOOD + "\nraise SystemError('imported')\n")
    done = headrace_command("--help")
    assert done.returncode == 0, done.stderr
    assert re.search(r"plants +Grow plants in rows\.", done.stdout)
    assert "plantsapp" not in sys.modules


def test_an_application_is_called_like_any_command(install: Callable[..., None], headrace_command: Command) -> None:
    install("plants", "plantsapp", GOOD)
    assert headrace_command("plants", "water").stdout == "watered\n"


def test_a_broken_application_says_so_and_spoils_no_other(
    install: Callable[..., None], headrace_command: Command
) -> None:
    install("plants", "brokenapp", "import nowhere_to_be_found\n")
    install("stones", "absentapp", GOOD.replace("plants", "stones"), attribute="nothing")
    install("trees", "treesapp", GOOD.replace("plants", "trees"))
    assert re.search(r"plants +Commands of the application plants\.", headrace_command("--help").stdout)
    done = headrace_command("plants", "water")
    assert done.returncode == 1
    assert "nowhere_to_be_found" in done.stderr
    assert "brokenapp" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in headrace_command("--debug", "plants", "water").stderr
    assert "cannot be loaded" in headrace_command("stones", "water").stderr
    assert headrace_command("trees", "water").returncode == 0
    # As completion does, which asks for everything at once.
    groups = {group.typer_instance.info.name for group in build(None).registered_groups}
    assert {"jobs", "trees"} <= groups
    assert not groups & {"plants", "stones"}


def test_an_application_cannot_take_the_name_of_a_command(install: Callable[..., None]) -> None:
    install("jobs", "greedyapp", GOOD)
    install("plants", "firstapp", GOOD)
    install("plants", "secondapp", GOOD)
    found = installed(COMMANDS)
    assert [app.entry.module for app in found if app.name in ("jobs", "plants")] == ["firstapp"]


def test_other_commands_do_not_even_look_for_applications() -> None:
    program = "import sys; from headrace.cli.app import run; run(['doctor', '--help'])"
    check = "; assert 'headrace.cli.apps' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program + check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
