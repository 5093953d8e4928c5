"""A report in a language model's words: what is sent, what is shown, and that a model that fails changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from headrace.errors import CallerError, OperatorError
from headrace.testing import HttpAnswer, HttpReceiver, HttpRequest
from headrace_scheduler.jobs.values import JobRun
from headrace_scheduler.rca.evidence import Evidence, LogEvent, SeenLock
from headrace_scheduler.rca.language_model import LanguageModelSettings, Redaction, phrase
from headrace_scheduler.rca.root_causes import find_causes

JOB = UUID("01a1eb26-ef8f-73b2-a9fb-dbb682143595")
WORKER, HOLDER = "shop-host-3:9742:5a741a8d", "billing@10.1.2.3:99"
NOW = datetime.now(UTC)
EVIDENCE = Evidence(
    NOW - timedelta(minutes=30),
    NOW,
    runs=(JobRun(JOB, UUID(int=5), WORKER, 3, NOW - timedelta(minutes=9), NOW, "lost"),),
    locks=(SeenLock(f"job:{JOB}", HOLDER, 4, False),),
    events=tuple(LogEvent(NOW, "info", "run.missed", {"resource": f"job:{JOB}"}) for _ in range(12)),
)


def phrased_answer(request: HttpRequest) -> HttpAnswer:
    """A language model answers with the first name that it was given."""
    message = {"role": "assistant", "content": "Look at <name-1>; run `rm -rf /`."}
    return HttpAnswer(200 if request.path == "/v1/chat/completions" else 404, {"choices": [{"message": message}]})


@pytest.fixture
def model() -> Iterator[HttpReceiver]:
    with HttpReceiver(phrased_answer) as receiver:
        yield receiver


def settings(model: HttpReceiver) -> LanguageModelSettings:
    given = {"RCA_LLM_URL": f"{model.url}/v1", "RCA_LLM_MODEL": "small", "RCA_LLM_KEY": "sk-of-the-test"}
    return LanguageModelSettings.of(given)


async def test_names_are_replaced_before_they_are_sent_and_put_back_into_the_answer(model: HttpReceiver) -> None:
    causes = find_causes(EVIDENCE)
    assert len(causes) == 2
    phrased = await phrase(settings(model), EVIDENCE, causes)
    (request,) = model.requests
    body = request.document
    assert request.headers["authorization"] == "Bearer sk-of-the-test"
    assert body["model"] == "small"
    sent = json.dumps(body)
    for name in (str(JOB), WORKER, HOLDER, "10.1.2.3", "shop-host-3", "sk-of-the-test"):
        assert name not in sent
    assert "worker_down" in sent
    assert "hot_resource" in sent
    assert "<name-1>" not in phrased
    assert phrased.startswith("Look at ")


def test_what_looks_like_a_secret_is_never_shown_again() -> None:
    redaction = Redaction()
    hidden = redaction.hide("password=hunter2 at 10.0.0.7:9042, Bearer abc.def, sk-0123456789", [])
    assert not {"hunter2", "10.0.0.7", "abc.def", "sk-0123456789"} & set(hidden.replace(",", "").split())
    assert "hunter2" not in hidden
    assert "10.0.0.7:9042" in redaction.show(hidden)
    assert "hunter2" not in redaction.show(hidden)


@pytest.mark.parametrize("answer", [b"", b"{}", b'{"choices": []}', b"<html>", b'{"choices": [{"message": null}]}'])
async def test_an_answer_that_is_none_is_an_error_with_words(model: HttpReceiver, answer: bytes) -> None:
    model.answer = lambda _request: HttpAnswer(200, answer)
    with pytest.raises(OperatorError, match="did not phrase"):
        await phrase(settings(model), EVIDENCE, find_causes(EVIDENCE))


def test_an_address_needs_a_model() -> None:
    assert LanguageModelSettings.of({}) == LanguageModelSettings()
    with pytest.raises(CallerError, match="RCA_LLM_MODEL"):
        LanguageModelSettings.of({"RCA_LLM_URL": "http://127.0.0.1:1/v1"})
    assert "sk-" not in repr(LanguageModelSettings.of({"RCA_LLM_KEY": "sk-0123456789"}))


def test_a_report_is_phrased_or_says_that_it_is_not(
    headrace_command: Any, embedded_environment: dict[str, str], model: HttpReceiver, tmp_path: Any
) -> None:
    given = {**embedded_environment, "RCA_LLM_URL": f"{model.url}/v1", "RCA_LLM_MODEL": "small"}
    arguments = ("scheduler", "rca", "--output", str(tmp_path / "report"), "--json")
    done = headrace_command(*arguments, **given)
    assert done.returncode == 0, done.stderr
    assert "In other words" in (tmp_path / "report" / "rca.md").read_text()
    assert "In other words" in (tmp_path / "report" / "rca.html").read_text()
    model.answer = lambda _request: HttpAnswer(200, b"{}")
    without = json.loads(headrace_command(*arguments, **given).stdout)
    assert "RCA_LLM_URL did not phrase the report: KeyError" in without["missing"]
    assert "In other words" not in (tmp_path / "report" / "rca.md").read_text()
