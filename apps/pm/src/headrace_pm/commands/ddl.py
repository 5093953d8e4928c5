"""`headrace pm ddl`: what `headrace pm clickhouse` makes, and what ClickHouse's own Kafka engine needs."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from headrace.commands import of, tell


class EngineForm(StrEnum):
    """In which form ClickHouse shall read the topic."""

    JSON = "json"
    ROW_BINARY = "rowbinary"


def register(app: typer.Typer) -> None:
    app.command()(ddl)


def ddl(
    context: typer.Context,
    kafka_engine: Annotated[
        EngineForm | None,
        typer.Option(
            "--kafka-engine", help="Also the tables by which ClickHouse reads the topic itself, in this form."
        ),
    ] = None,
) -> None:
    """Print the tables in ClickHouse as SQL, for those who make them by hand.

    With --kafka-engine ClickHouse reads the topic itself, and `headrace pm clickhouse` does not run.
    """
    from headrace_pm.clickhouse.statements import ddl_statements
    from headrace_pm.frame import FRAME
    from headrace_pm.kafka.forms import RecordForm

    engine = None if kafka_engine is None else RecordForm(kafka_engine)
    statements = ddl_statements(FRAME.load(os.environ), engine)
    of(context).answer(statements, lambda _console: tell("\n\n".join(f"{each};" for each in statements)))
