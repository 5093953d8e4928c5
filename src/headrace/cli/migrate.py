"""`headrace migrate …`: bring a store's schema to what this code needs."""

from __future__ import annotations

import asyncio

import typer

from headrace.cli.failures import Exit
from headrace.cli.groups import command_group
from headrace.cli.session import of

app = command_group("migrate", "The schema of a store.")


def register(tree: typer.Typer) -> None:
    tree.add_typer(app)


@app.command()
def up(context: typer.Context) -> None:
    """Apply what is missing, in one transaction."""
    from headrace.wiring import migrate_up

    session = of(context)
    applied = asyncio.run(migrate_up(session.settings().store))
    said = "\n".join(f"applied {name}" for name in applied) or "nothing to do"
    session.answer({"applied": applied}, lambda console: console.print(said))


@app.command()
def status(context: typer.Context) -> int:
    """Which schema the store has and which one this code needs. Exit code 1 if they differ."""
    from headrace.wiring import schema_versions

    session = of(context)
    versions = asyncio.run(schema_versions(session.settings().store))
    document = {"schema": versions.found, "needed": versions.newest, "current": versions.current}
    functions = " with other functions" if versions.functions_differ else ""
    said = f"schema {versions.found}, this code needs {versions.newest}{functions}"
    session.answer(document, lambda console: console.print(said))
    return Exit.OK if versions.current else Exit.FAILED


@app.command()
def sql(context: typer.Context) -> None:
    """Print the statements of all migrations, to apply them by hand."""
    from headrace.wiring import migration_text

    session = of(context)
    parts = migration_text(session.settings().store)
    document = [{"name": name, "sql": text} for name, text in parts]
    whole = "\n".join(f"-- {name}\n{text}" for name, text in parts)
    session.answer(document, lambda console: console.print(whole, markup=False))
