"""Applications need public modules only: `headrace` and `headrace.ports` hold everything that passes through a port,
the others what every application needs besides."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import subprocess
import sys
import tomllib
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from public_modules import PUBLIC

import headrace
import headrace.errors
import headrace.ports
from headrace.core import errors as core_errors

ROOT = Path(__file__).resolve().parent.parent
PORTS = ROOT / "src" / "headrace" / "ports" / "__init__.py"
APPLICATIONS = [ROOT / "tests" / "test_two_services.py", *sorted(ROOT.glob("apps/*/src/**/*.py"))]


def spoken_of(thing: Any, seen: set[Any]) -> None:
    """Every class of ours in a signature, in what it holds, and in what that holds."""
    for part in typing.get_args(thing):
        spoken_of(part, seen)
    if isinstance(thing, types.FunctionType):
        for part in typing.get_type_hints(thing).values():
            spoken_of(part, seen)
    elif inspect.isclass(thing) and thing.__module__.startswith("headrace.") and thing not in seen:
        seen.add(thing)
        methods = [value for name, value in vars(thing).items() if not name.startswith("_")]
        for method in (value.fget if isinstance(value, property) else value for value in methods):
            if getattr(thing, "_is_protocol", False):
                spoken_of(method, seen)
        if dataclasses.is_dataclass(thing):
            for part in typing.get_type_hints(thing).values():
                spoken_of(part, seen)


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_everything_that_passes_through_a_port_is_public() -> None:
    protocols = [getattr(headrace.ports, name) for name in headrace.ports.__all__]
    seen: set[Any] = set()
    for protocol in protocols:
        spoken_of(protocol, seen)
    public = {getattr(module, name) for module in (headrace, headrace.ports) for name in module.__all__}
    assert {thing.__name__ for thing in seen - public} == set()


def test_every_port_is_public() -> None:
    declared = set()
    for entry in pkgutil.iter_modules(headrace.ports.__path__, "headrace.ports."):
        module = importlib.import_module(entry.name)
        own = [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == entry.name]
        declared |= {value.__name__ for value in own if getattr(value, "_is_protocol", False)}
    assert declared <= set(headrace.ports.__all__)


@pytest.mark.parametrize("name", headrace.ports.__all__)
def test_what_is_public_says_what_it_is(name: str) -> None:
    thing = getattr(headrace.ports, name)
    own = thing.__doc__ or sys.modules[thing.__module__].__doc__
    assert own
    assert not own.startswith(f"{name}("), f"{name} has no docstring of its own"


def test_the_ports_are_declared_for_type_checkers() -> None:
    nodes = ast.walk(ast.parse(PORTS.read_text("utf-8")))
    found = [node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headrace.")]
    assert {alias.asname for node in found for alias in node.names} == set(headrace.ports.__all__)


def test_a_name_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        _ = headrace.ports.Nothing
    assert "Bus" in dir(headrace.ports)


@pytest.mark.parametrize("module", ["headrace.ports", "headrace.tables"])
def test_naming_a_module_loads_nothing_else(module: str) -> None:
    loaded = "[m for m in sys.modules if m.startswith(('headrace.core', 'headrace.runtime'))]"
    check = f"import sys, {module}; assert not {loaded}"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[parts.index("src") + 1 :] if "src" in parts else parts[-1:])


def source_of(name: str) -> Path:
    return ROOT / "src" / Path(*name.split("."))


def modules_of(package: str) -> set[str]:
    entries = [path for path in source_of(package).iterdir() if path.name != "__init__.py"]
    return {f"{package}.{path.stem}" for path in entries if path.suffix == ".py" or (path / "__init__.py").exists()}


def contract() -> dict[str, Any]:
    """The import contract of applications."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (found,) = [
        each
        for each in settings["tool"]["importlinter"]["contracts"]
        if each["name"] == "applications import public modules only"
    ]
    return dict(found)


def test_an_application_imports_public_modules_only() -> None:
    """The import contract sees this too, but not what is imported for types only. Neither has an exception."""
    elsewhere = {
        (module_of(path), name)
        for path in APPLICATIONS
        for name in imported(path)
        if name.split(".")[0] == "headrace" and name not in PUBLIC
    }
    assert elsewhere == set()
    assert "ignore_imports" not in contract()


def test_the_contract_of_applications_refuses_all_that_is_not_public() -> None:
    """Of a package with public modules in it every other module is refused, of any other public one all modules."""
    packages = {name for name in PUBLIC if (source_of(name) / "__init__.py").exists()}
    opened = {name for name in packages if any(other.startswith(f"{name}.") for other in PUBLIC)}
    inside = {each for name in opened for each in modules_of(name)}
    assert set(contract()["forbidden_modules"]) == inside - PUBLIC | {f"{name}.*" for name in packages - opened}


@pytest.mark.parametrize("name", sorted(PUBLIC - {"headrace.testing"}))
def test_a_public_module_names_what_it_offers(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__all__
    for each in module.__all__:
        assert getattr(module, each) is not None


def test_every_error_has_its_public_address() -> None:
    own = {
        name for name, value in vars(core_errors).items() if getattr(value, "__module__", "") == core_errors.__name__
    }
    assert set(headrace.errors.__all__) == own
