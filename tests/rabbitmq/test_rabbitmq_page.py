"""What the page about RabbitMQ shows is run against a live broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import Command, Reader


def test_what_the_page_shows_is_run(
    rabbitmq_vhost: str, tmp_path: Path, headrace_command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = Reader(tmp_path, headrace_command, capfd, variables={"HEADRACE_AMQP_URL": rabbitmq_vhost})
    reader.follow("docs/rabbitmq.md")
    assert reader.seen == ["sh", "python", "text"]
