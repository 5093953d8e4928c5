"""What the page about RabbitMQ shows is run against a live broker, with its store in SQLite and in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pages import Command, Reader


@pytest.fixture(params=["sqlite", "postgres"])
def moved(request: pytest.FixtureRequest) -> Callable[[str], str] | None:
    if request.param == "sqlite":
        return None
    url: str = request.getfixturevalue("postgres_database")
    return lambda _name: url


def test_what_the_page_shows_is_run(
    moved: Callable[[str], str] | None,
    rabbitmq_vhost: str,
    tmp_path: Path,
    headrace_command: Command,
    capfd: pytest.CaptureFixture[str],
) -> None:
    variables = {"HEADRACE_AMQP_URL": rabbitmq_vhost}
    reader = Reader(tmp_path, headrace_command, capfd, variables=variables, moved=moved)
    reader.follow("docs/rabbitmq.md")
    assert reader.seen == ["sh", "python", "text"]
