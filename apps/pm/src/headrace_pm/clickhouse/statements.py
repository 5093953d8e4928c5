"""The statements in `sql`, and those of them that make tables."""

from __future__ import annotations

import re
from importlib import resources

from headrace_pm.clickhouse.settings import ClickHouseSettings
from headrace_pm.kafka.forms import RecordForm

DATA, DEAD = "pm_counter_data", "pm_dead_message"
_NAMED = re.compile(r"^-- name: \w+\n", re.MULTILINE)


def statement(name: str) -> str:
    """One that has a file of its own."""
    return resources.files("headrace_pm.clickhouse").joinpath("sql", f"{name}.sql").read_text("utf-8").strip()


def ddl_statements(settings: ClickHouseSettings, engine: RecordForm | None = None) -> list[str]:
    """Those that make the tables; with `engine` also those for ClickHouse's own Kafka engine, which reads the topic in
    this form."""
    statements = [statement(DATA), statement(DEAD)]
    if engine is not None:
        whole = statement(f"kafka_engine_{engine}")
        for name, value in {
            "brokers": settings.kafka_bootstrap,
            "topic": settings.kafka_topic,
            "group": settings.clickhouse_group,
        }.items():
            whole = whole.replace(f"@{name}", value.replace("\\", "\\\\").replace("'", "\\'"))
        statements += [part.strip() for part in _NAMED.split(whole) if part.strip()]
    return statements
