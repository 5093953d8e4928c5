"""A handler in another language: the example in JavaScript, called as the scheduler calls it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.rig.catalogue import TOOLS
from headrace_scheduler.handlers.http_call import HttpCall
from headrace_scheduler.handlers.running_job import RunFailed, RunningJob

APPLICATION = Path(__file__).parents[1]
EXAMPLE = APPLICATION / "examples" / "account.js"
PAGE = (APPLICATION.parents[1] / "docs" / "scheduler.md").read_text("utf-8")
FIRST, OTHER = "01a1eaee-fe53-7342-94e8-2ab78612e0ef", "01a1eaee-fe53-7342-94e8-2ab78612e0f0"
PAYMENT = {"amount": 10}


@pytest.fixture(scope="module")
def account() -> Iterator[str]:
    """Where the example listens."""
    with subprocess.Popen([TOOLS["node"].path(), EXAMPLE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def pay(account: str, job_id: str, token: int, body: object = PAYMENT) -> object:
    """One run of a job that pays 10: what the account says then."""

    async def nothing(progress: object) -> None:
        """Nobody reads it."""

    payload = {"type": "http", "url": f"{account}/payments", "body": body}
    run = RunningJob(job_id, payload, f"job:{job_id}", token, 1, nothing)
    answer = await HttpCall((account,)).run(run)
    assert isinstance(answer, dict)
    return json.loads(answer["body"])


async def test_the_example_pays_once_and_refuses_a_run_that_is_late(account: str) -> None:
    assert await pay(account, FIRST, 5) == {"balance": 10}
    # The same run again, because its answer was lost, and a later run of the same job.
    assert await pay(account, FIRST, 5) == {"balance": 10}
    assert await pay(account, FIRST, 7) == {"balance": 10}
    with pytest.raises(RunFailed, match="409"):
        await pay(account, FIRST, 6)
    for wrong in ("", "no JSON", {"amount": "ten"}):
        with pytest.raises(RunFailed, match="400"):
            await pay(account, OTHER, 1, wrong)
    # Tokens of another job are its own.
    assert await pay(account, OTHER, 1) == {"balance": 20}


def test_the_example_on_the_page_is_the_one_that_runs() -> None:
    (shown,) = re.findall(r"^```js\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert shown == EXAMPLE.read_text("utf-8")
