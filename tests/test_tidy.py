"""What a machine can check of the style: sizes, names, imports, words. The rest is judged by a reader."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
import headrace.ports

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "headrace"
MODULES = sorted(SOURCE.rglob("*.py"))
PRODUCT = [*MODULES, *sorted(ROOT.glob("apps/*/src/**/*.py"))]
TESTS = sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("apps/*/tests/**/*.py")])
PYTHON = [*PRODUCT, ROOT / "conftest.py", *TESTS, *sorted((ROOT / "bench").rglob("*.py"))]
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
PUBLIC_NAMES_MAX = 30
PORT_METHODS_MAX = 8
STATEMENT_CHARS_MAX = 120
WORLDLY = {"time", "random", "uuid", "uuid_utils", "socket", "threading", "secrets"}
MAY_TOUCH_THE_WORLD = {"runtime/seams.py", "runtime/supervisor.py"}
FOLDER_FILES_MAX = 20
PREFIX_FILES_MAX = 3
# Words that end like a gerund and are nouns, and the public module whose name says what it is for.
NOUNS_IN_ING = {
    "consuming",
    "embedding",
    "headrace_matching",
    "matching",
    "nothing",
    "pacing",
    "testing",
    "wiring",
}
# Sleeping in tests: work that takes time, a fault that lasts or comes by chance, a virtual loop, and the waiter.
# What is waited for is a signal, or `waiting.eventually`. This list only shrinks.
SLEEPS = {
    "apps/smap/tests/test_smap_accounting_together.py": 2,
    "apps/smap/tests/test_smap_chaos.py": 1,
    "tests/kills/killed_flows.py": 4,
    "tests/kills/test_choreography_kills.py": 1,
    "tests/kills/test_kills.py": 1,
    "tests/kills/test_schedule_kills.py": 1,
    "tests/runtime/reporting_child.py": 1,
    "tests/runtime/test_holding.py": 2,
    "tests/runtime/test_streaming.py": 1,
    "tests/runtime/test_suspects.py": 2,
    "tests/runtime/test_working.py": 1,
    "tests/simulation/test_seeds.py": 1,
    "tests/waiting.py": 3,
}
FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "common", "manager", "base", "misc"}
# Written in two halves so that this file does not find itself.
MOCKS = re.compile(r"unittest\.mo" + "ck|from mo" + "ck")
UNFINISHED = re.compile("TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK|NotImplemented" + "Error")
MACHINE_PATHS = re.compile("/ho" + r"me/|/ro" + r"ot/|/wo" + r"rk/|/Us" + "ers/")
SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|WITH|BEGIN)\b")
TEXT_FILES = [
    path
    for pattern in (
        "*.md",
        "docs/*.md",
        "*.toml",
        "*.txt",
        "Makefile",
        "run",
        "test",
        ".ci/*",
        "src/**/*.cql",
        "src/**/*.sql",
        "apps/**/*.cql",
        "apps/**/*.sql",
        "apps/*/*.toml",
    )
    for path in sorted(ROOT.glob(pattern))
    if path.is_file()
]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(path: Path) -> str:
    return path.read_text("utf-8")


def found_in(paths: list[Path], pattern: re.Pattern[str]) -> dict[str, list[str]]:
    hits = {name_of(path): pattern.findall(text_of(path)) for path in paths}
    return {name: found for name, found in hits.items() if found}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def test_a_file_can_be_read_in_one_go() -> None:
    sizes = {name_of(path): len(text_of(path).splitlines()) for path in PYTHON}
    assert {name: lines for name, lines in sizes.items() if lines > FILE_LINES_MAX} == {}


def test_a_function_fits_on_a_screen() -> None:
    sizes = {
        f"{name_of(path)}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in PYTHON
        for node in functions(path)
    }
    assert {name: lines for name, lines in sizes.items() if lines > FUNCTION_LINES_MAX} == {}


def test_nothing_is_left_unfinished() -> None:
    assert found_in([*PYTHON, *TEXT_FILES], UNFINISHED) == {}


def test_no_machine_and_no_registry_is_named() -> None:
    assert found_in([*PYTHON, *TEXT_FILES], MACHINE_PATHS) == {}
    assert found_in(TEXT_FILES, re.compile("index-url|find-links")) == {}


def test_a_name_says_what_it_holds() -> None:
    named = {name_of(path): set(path.relative_to(ROOT).with_suffix("").parts) & FORBIDDEN_NAMES for path in PYTHON}
    assert {name: words for name, words in named.items() if words} == {}


def gerunds(paths: list[Path]) -> set[str]:
    """Modules that are named by what is done, and not by what they hold."""
    parts = {name_of(path): path.relative_to(ROOT).with_suffix("").parts for path in paths}
    return {name for name, words in parts.items() if any(word.endswith("ing") for word in set(words) - NOUNS_IN_ING)}


def test_a_gerund_is_found() -> None:
    named = [SOURCE / "core" / "leasing.py", SOURCE / "serving" / "frame.py", SOURCE / "testing" / "twins.py"]
    assert gerunds(named) == {"src/headrace/core/leasing.py", "src/headrace/serving/frame.py"}


def test_a_module_is_a_noun() -> None:
    assert gerunds(PRODUCT) == set()


def missing_folders(paths: list[Path]) -> set[str]:
    """Prefixes that many files of one folder share, and by which they should have a folder of their own."""
    named = [name_of(path.parent / path.stem.split("_")[0]) for path in paths if not path.stem.startswith("__")]
    return {prefix for prefix in named if named.count(prefix) > PREFIX_FILES_MAX}


def test_a_missing_folder_is_found() -> None:
    named = [SOURCE / f"{name}.py" for name in ("proxy", "proxy_cuts", "proxy_faults", "proxy_lines", "relay")]
    assert missing_folders(named) == {"src/headrace/proxy"}


def test_files_that_share_a_prefix_are_a_folder() -> None:
    assert missing_folders(PRODUCT) == set()


def test_a_folder_of_an_application_can_be_overlooked() -> None:
    folders = {path.parent for path in PRODUCT if path.parts[len(ROOT.parts)] == "apps"}
    sizes = {name_of(folder): sum(each.is_file() for each in folder.iterdir()) for folder in folders}
    assert {name: files for name, files in sizes.items() if files > FOLDER_FILES_MAX} == {}


def test_a_class_name_means_one_thing() -> None:
    """One that is private to its module (`_Name`) may exist elsewhere too."""
    names = [
        node.name
        for path in PRODUCT
        for node in ast.parse(text_of(path)).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {name for name in names if names.count(name) > 1} == set()


def test_a_module_tells_its_idea() -> None:
    silent = [path for path in PRODUCT if text_of(path).strip() and not ast.get_docstring(ast.parse(text_of(path)))]
    assert [name_of(path) for path in silent] == []


def test_core_and_runtime_touch_the_world_only_through_seams() -> None:
    pure = [path for path in MODULES if path.relative_to(SOURCE).parts[0] in ("core", "runtime")]
    worldly = {str(path.relative_to(SOURCE)): imports(path) & WORLDLY for path in pure}
    assert {name: found for name, found in worldly.items() if found and name not in MAY_TOUCH_THE_WORLD} == {}


def test_statements_longer_than_a_line_live_in_files() -> None:
    long = [
        f"{name_of(path)}:{node.lineno}"
        for path in PRODUCT
        if "testing" not in path.parts
        for node in ast.walk(ast.parse(text_of(path)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.match(node.value)
        if "\n" in node.value.strip() or len(node.value) > STATEMENT_CHARS_MAX
    ]
    assert long == []


def test_tests_are_sentences_that_always_run() -> None:
    words = ("skip", "xfail", "monkeypatch")
    for path in TESTS:
        if not path.name.startswith("test_") or path == Path(__file__).resolve():
            continue
        text = path.read_text("utf-8")
        assert [word for word in words if re.search(rf"\b{word}\b", text)] == [], path
        assert not MOCKS.search(text), path


def sleeps(text: str) -> int:
    """How often this calls `sleep`, of whatever module."""
    called = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    names = [getattr(function, "attr", None) or getattr(function, "id", None) for function in called]
    return names.count("sleep")


@pytest.mark.parametrize("text", ["await asyncio.sleep(1.0)", "time.sleep(1)", "sleep(1)", "loop.spawn(sleep(1))"])
def test_a_sleep_is_found(text: str) -> None:
    assert sleeps(text) == 1


def test_tests_do_not_sleep() -> None:
    found = {name_of(path): sleeps(text_of(path)) for path in TESTS}
    assert {name: count for name, count in found.items() if count} == SLEEPS


def test_no_two_test_files_share_a_name() -> None:
    names = [path.name for path in TESTS if path.name not in ("conftest.py", "__init__.py")]
    assert sorted(names) == sorted(set(names))


def test_the_public_names_are_few_and_documented() -> None:
    assert 0 < len(headrace.__all__) <= PUBLIC_NAMES_MAX
    for name in headrace.__all__:
        thing = getattr(headrace, name)
        own = thing.__doc__
        assert own, f"{name} has no docstring"
        assert not own.startswith(f"{name}("), f"{name} has no docstring of its own"


def test_every_public_name_is_declared_for_type_checkers() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text("utf-8"))
    declared = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headrace.")
        for alias in node.names
    }
    assert declared == set(headrace.__all__)
    assert (SOURCE / "py.typed").exists()


def protocols() -> list[Any]:
    found = []
    for entry in pkgutil.iter_modules(headrace.ports.__path__, "headrace.ports."):
        module = importlib.import_module(entry.name)
        for value in vars(module).values():
            if inspect.isclass(value) and getattr(value, "_is_protocol", False) and value.__module__ == entry.name:
                found.append(value)
    return found


@pytest.mark.parametrize("port", protocols(), ids=lambda port: port.__name__)
def test_a_port_is_small(port: Any) -> None:
    methods = [name for name, value in vars(port).items() if inspect.isfunction(value) and not name.startswith("_")]
    assert len(methods) <= PORT_METHODS_MAX
