"""kill -9 of a process that writes to Kafka: its successor repeats no more than was on its way, and nothing is lost."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pm_kafka_child import PARALLEL
from pm_kafka_world import batch_of, headers_of, messages_of, truth
from test_pm_kafka_sink import foreign_rows, whole

from headrace.commands import environment_without
from headrace.services import Program
from headrace.testing import ServiceProcess
from headrace_pm.kafka.forms import RecordForm

BATCHES = 9
POINT_S_MAX = 60.0


def child(topic_url: str, form: RecordForm, checkpoints: Path, point: str, log: Path) -> ServiceProcess:
    place = urlsplit(topic_url)
    script = Path(__file__).with_name("pm_kafka_child.py")
    words = (place.netloc, place.path.lstrip("/"), form, str(BATCHES), str(checkpoints), point)
    environment = {**environment_without("PM_"), "PYTHONPATH": ":".join(path for path in sys.path if path)}
    return ServiceProcess(Program("pm kafka", (sys.executable, str(script), *words), environment), log)


@pytest.mark.parametrize(("form", "point"), [(RecordForm.ROW_BINARY, "sent"), (RecordForm.JSON, "saved")])
def test_a_killed_writer_loses_nothing(kafka_topic: str, tmp_path: Path, form: RecordForm, point: str) -> None:
    checkpoints, log = tmp_path / "checkpoint", tmp_path / "log"
    killed = child(kafka_topic, form, checkpoints, point, log)
    killed.line_with("at the point").result(POINT_S_MAX)
    killed.kill()
    successor = child(kafka_topic, form, checkpoints, "none", log)
    done = successor.line_with("done").result(POINT_S_MAX)
    assert successor.process.wait(POINT_S_MAX) == 0
    successor.stop()
    batches = [batch_of(number) for number in range(BATCHES)]
    wanted = whole(batches)
    assert done == f"done {wanted.next_batch} {wanted.rows} {wanted.digest}"
    if form is RecordForm.JSON:
        assert foreign_rows(kafka_topic) == truth(batches)
        copies = len(messages_of(kafka_topic)) - wanted.rows
        assert copies <= (PARALLEL + 1) * len(batches[0])
    else:
        times = Counter(headers_of(each)["batch"] for each in messages_of(kafka_topic))
        assert set(times) == {str(number) for number in range(BATCHES)}
        assert sum(times.values()) - BATCHES <= PARALLEL + 1
