"""Applications in the command tree: whoever declares the entry point `headrace.apps` gets a command of its name.

    [project.entry-points."headrace.apps"]
    silver = "headrace_silver.commands:register"

`register` is given the tree, as the commands of headrace are. It is imported when the command is called; its sentence
in the list of commands is the first line of its module's docstring, read from the source. An application that is
broken, or has the name of another command, can only spoil itself.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer

from headrace.core.errors import OperatorError

GROUP = "headrace.apps"


@dataclass(frozen=True, slots=True)
class App:
    """One application that is installed beside headrace, or with it."""

    entry: EntryPoint

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def sentence(self) -> str:
        """What the application says of itself, without importing it."""
        try:
            told = ast.get_docstring(ast.parse(_source(self.entry.module))) or ""
        except Exception:
            # Whatever is wrong with it is told when it is called.
            told = ""
        return told.strip().partition("\n")[0] or f"Commands of the application {self.name}."

    def register(self, tree: typer.Typer) -> None:
        """Add its commands to the tree."""
        try:
            register: Callable[[typer.Typer], None] = self.entry.load()
            register(tree)
        except Exception as error:
            package = self.entry.dist.name if self.entry.dist else self.entry.module
            raise OperatorError(
                f"the application {self.name} cannot be loaded: {type(error).__name__}: {error}",
                f"it comes with {package}: install it again, or the same command with --debug shows where",
            ) from error


def installed(taken: Collection[str]) -> list[App]:
    """All applications in order of their names; of two with one name, the one that Python finds first."""
    found: dict[str, App] = {}
    for entry in entry_points(group=GROUP):
        if entry.name not in taken:
            found.setdefault(entry.name, App(entry))
    return [found[name] for name in sorted(found)]


def _source(module: str) -> str:
    """The source text of a module, found package by package: importing a package could cost anything."""
    path: Any = None
    spec: Any = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
        spec = next(filter(None, (finder.find_spec(name, path) for finder in finders)))
        path = spec.submodule_search_locations
    return str(spec.loader.get_source(module))
