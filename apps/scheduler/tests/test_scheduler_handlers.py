"""What jobs do, by their type: what is refused, what fences them, and how they are stopped."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import eventually, turn, until

from headrace import Dead
from headrace.errors import InvalidPayload
from headrace.testing.rig.children import started_at
from headrace_scheduler.handlers.allow_lists import command_allowed, url_allowed
from headrace_scheduler.handlers.command import Command
from headrace_scheduler.handlers.http_call import HttpCall
from headrace_scheduler.handlers.python_call import PythonCall
from headrace_scheduler.handlers.registry import RESULT_BYTES_MAX, HandlerRegistry, builtin_handlers, payload_of
from headrace_scheduler.handlers.running_job import RunFailed, RunningJob
from headrace_scheduler.settings import SchedulerSettings

JOB = "01a1eaee-fe53-7342-94e8-2ab78612e0ef"


async def nobody(progress: Any) -> None: ...


def job(**payload: Any) -> RunningJob:
    return RunningJob(JOB, payload, f"job:{JOB}", 7, 1, nobody)


@pytest.fixture
def registry() -> HandlerRegistry:
    return HandlerRegistry(builtin_handlers(SchedulerSettings()))


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"anything": 1},
        {"type": "sleep", "seconds": 0},
        {"type": "http", "url": "http://127.0.0.1/"},
        {"type": "command", "argv": ["true"]},
        {"type": "python", "name": "f", "arguments": {"a": 1}},
        {"type": "fail"},
    ],
)
def test_a_payload_that_can_be_run_is_accepted(payload: dict[str, Any], registry: HandlerRegistry) -> None:
    registry.check(payload)


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        ({"type": "nope"}, "nope"),
        ({"type": 7}, "type"),
        ({"type": "sleep"}, "seconds"),
        ({"type": "sleep", "seconds": True}, "seconds"),
        ({"type": "sleep", "seconds": -1}, "seconds"),
        ({"type": "sleep", "seconds": 1, "second": 2}, "second"),
        ({"type": "http"}, "url"),
        ({"type": "http", "url": "http://h", "method": "BREW"}, "method"),
        ({"type": "http", "url": "http://h", "headers": {"a": "b\r\nc: d"}}, "headers.a"),
        ({"type": "http", "url": "http://h", "headers": {"a": "Bearer s3cret "}}, "headers.a"),
        ({"type": "http", "url": "http://h", "headers": {"a": " s3cret"}}, "headers.a"),
        ({"type": "http", "url": "http://h", "headers": {"a b": "c"}}, "headers.'a b'"),
        ({"type": "http", "url": "http://h", "headers": {"": "c"}}, "headers"),
        ({"type": "http", "url": "http://h", "headers": {"Host": "admin"}}, "headers.Host"),
        ({"type": "http", "url": "http://h", "headers": {"content-length": "5"}}, "headers.content-length"),
        ({"type": "http", "url": "http://h", "headers": {"Transfer-Encoding": "x"}}, "headers.Transfer-Encoding"),
        ({"type": "command", "argv": "true"}, "argv"),
        ({"type": "command", "argv": ["a\0b"]}, "argv"),
        ({"type": "python", "name": ""}, "name"),
        ({"type": "python", "name": "f", "arguments": []}, "arguments"),
    ],
)
def test_any_other_payload_is_refused_by_the_field(
    payload: dict[str, Any], named: str, registry: HandlerRegistry
) -> None:
    with pytest.raises(InvalidPayload, match=named) as refused:
        registry.check(payload)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("text", ["[1]", "7", "not json"])
def test_a_payload_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidPayload):
        payload_of(text)


@pytest.mark.parametrize("text", [None, "", "{}"])
def test_an_empty_payload_is_an_empty_object(text: str | None) -> None:
    assert payload_of(text) == {}


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://shop/hooks/a", True),
        ("http://shop/hook", False),
        ("http://shop/hooks", False),
        ("http://shop/open", True),
        ("http://shop/open/a?b=c", True),
        ("http://shop/open?b=c", True),
        ("http://shop/opening", False),
        ("http://shop/open%2Fa", False),
        ("http://SHOP/open/a", True),
        ("https://shop/open/a", False),
        ("http://shop/one?key=1", True),
        ("http://shop/one?key=12", False),
        ("http://shop/hooks/../admin", False),
        ("http://shop/hooks/%2e%2e/admin", False),
        ("http://127.0.0.1:8000/", True),
        ("http://127.0.0.1.example/", False),
        ("http://127.0.0.1@example/", False),
        ("http://other:80/", True),
        ("http://other:8080/", False),
        ("ftp://shop/hooks/", False),
        ("http://[", False),
    ],
)
def test_a_url_is_allowed_by_the_host_and_path_that_it_leads_to(url: str, allowed: bool) -> None:
    prefixes = (
        "http://shop/hooks/",
        "http://shop/open",
        "http://shop/one?key=1",
        "http://127.0.0.1",
        "http://other:80",
    )
    assert url_allowed(url, prefixes) is allowed
    assert not url_allowed(url, ())


@pytest.mark.parametrize(
    ("argv", "allowed"),
    [
        (["/bin/echo", "x"], True),
        (["/bin2/echo", "x"], False),
        (["/bin/../sbin/x"], False),
        (["git", "pull"], True),
        (["git", "pull", "--rebase"], True),
        (["git", "push"], False),
        (["git", "pull-all"], False),
        (["git pull"], False),
        (["git"], False),
        (["/usr/bin/make", "x"], True),
        (["/usr/bin/make-evil"], False),
        (["cat", "/data/a"], True),
        (["cat", "/data/../etc/a"], False),
        (["cat", "/database"], False),
    ],
)
def test_a_command_is_allowed_by_whole_words(argv: list[str], allowed: bool) -> None:
    assert command_allowed(argv, ("/bin/", "git pull", "/usr/bin/make", "cat /data")) is allowed
    assert not command_allowed(argv, ())


@asynccontextmanager
async def receiver(answer: bytes) -> AsyncIterator[tuple[str, list[bytes], asyncio.Event]]:
    """A server of one answer: its address, what it was sent, and whether the caller has gone."""
    requests, gone = list[bytes](), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        # A caller that leaves with something unread resets the connection.
        with suppress(OSError):
            while await reader.read(1_000):
                pass
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        gone.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests, gone
        await asyncio.wait_for(gone.wait(), 60)


async def test_a_call_carries_what_fences_it_and_no_payload_can_replace_it() -> None:
    async with receiver(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok") as (url, requests, _):
        headers = {"X-Own": "1", "fencing-token": "99"}
        result = await HttpCall((url,)).run(job(type="http", url=f"{url}/pay", headers=headers, body={"amount": 3}))
    assert result == {"status": 201, "body": "ok"}
    head = requests[0].decode().lower()
    assert head.startswith("post /pay ")
    for line in ("fencing-token: 7", f"fencing-resource: job:{JOB}", f"idempotency-key: {JOB}", "x-own: 1"):
        assert f"\r\n{line}\r\n" in head
    assert "99" not in head


@pytest.mark.parametrize("status", ["302 Found", "404 Not Found", "500 No"])
async def test_an_answer_other_than_2xx_is_a_failed_run(status: str) -> None:
    answer = f"HTTP/1.1 {status}\r\nLocation: /else\r\nContent-Length: 0\r\n\r\n".encode()
    async with receiver(answer) as (url, requests, _):
        with pytest.raises(RunFailed, match=status[:3]):
            await HttpCall((url,)).run(job(type="http", url=url))
        assert len(requests) == 1


async def test_a_cancelled_call_closes_its_connection() -> None:
    async with receiver(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n") as (url, requests, gone):
        calling = asyncio.ensure_future(HttpCall((url,)).run(job(type="http", url=url)))
        await eventually(lambda: requests, "the call has come")
        calling.cancel()
        await asyncio.wait([calling])
        await asyncio.wait_for(gone.wait(), 60)


async def test_what_is_not_allowed_is_dead_at_once() -> None:
    with pytest.raises(Dead, match="WORKER_HTTP_ALLOW"):
        await HttpCall(()).run(job(type="http", url="http://127.0.0.1:9/"))
    with pytest.raises(Dead, match="WORKER_COMMAND_ALLOW"):
        await Command((), {}).run(job(type="command", argv=["true"]))


async def test_a_command_is_fenced_by_its_environment_and_inherits_no_secret() -> None:
    script = "import json, os; print(json.dumps(dict(os.environ)))"
    environment = {**os.environ, "WORKER_API_KEY": "secret"}
    handler = Command((sys.executable,), environment)
    result: Any = await handler.run(job(type="command", argv=[sys.executable, "-c", script]))
    seen = json.loads(result["output"])
    assert (seen["FENCING_TOKEN"], seen["FENCING_RESOURCE"], seen["JOB_ID"]) == ("7", f"job:{JOB}", JOB)
    assert "WORKER_API_KEY" not in seen


async def test_a_command_that_fails_is_a_failed_run() -> None:
    with pytest.raises(RunFailed, match=r"ended with 3: oh no"):
        await Command(("/bin/sh",), os.environ).run(job(type="command", argv=["/bin/sh", "-c", "echo oh no; exit 3"]))


async def test_a_cancelled_command_is_killed_with_what_it_has_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    line = ["/bin/sh", "-c", f"sleep 60 & echo $! > {note}.tmp && mv {note}.tmp {note}; wait"]
    running = asyncio.ensure_future(Command(("/bin/sh",), os.environ).run(job(type="command", argv=line)))
    await eventually(note.exists, "it runs")
    running.cancel()
    await asyncio.wait([running])
    await eventually(lambda: started_at(int(note.read_text())) is None, "its child is gone")


@pytest.mark.parametrize("turns", [3, 4])
async def test_a_command_cancelled_while_it_starts_leaves_nothing_behind(turns: int, tmp_path: Path) -> None:
    """Its process runs before asyncio says so, and may have started others by then."""
    note = tmp_path / "pid"
    line = ["/bin/sh", "-c", f"sleep 60 & echo $! > {note}.tmp && mv {note}.tmp {note}; wait"]
    running = asyncio.ensure_future(Command(("/bin/sh",), os.environ).run(job(type="command", argv=line)))
    for _ in range(turns):
        await turn()
    # The loop stands still meanwhile, so the cancellation finds it in the middle of its start.
    until(note.exists, "it runs")
    running.cancel()
    await asyncio.wait([running])
    await eventually(lambda: started_at(int(note.read_text())) is None, "its child is gone")


async def test_what_a_command_leaves_behind_is_killed_when_it_has_ended(tmp_path: Path) -> None:
    """Also if it holds the output open: the job ends when its command does."""
    note = tmp_path / "pid"
    line = ["/bin/sh", "-c", f"sleep 60 & echo $! > {note}; echo done"]
    async with asyncio.timeout(55):
        result: Any = await Command(("/bin/sh",), os.environ).run(job(type="command", argv=line))
    assert result == {"exit_code": 0, "output": "done\n"}
    await eventually(lambda: started_at(int(note.read_text())) is None, "what it left behind is gone")


async def test_a_function_that_nobody_has_is_dead_at_once() -> None:
    with pytest.raises(Dead, match="no installed package"):
        await PythonCall().run(job(type="python", name="nobody"))


def test_a_function_that_nobody_has_is_refused_by_whoever_runs_it() -> None:
    """Another process may have it installed where its worker is."""
    handlers, payload = builtin_handlers(SchedulerSettings()), {"type": "python", "name": "nobody"}
    HandlerRegistry(handlers).admit(payload)
    with pytest.raises(InvalidPayload, match="no installed package"):
        HandlerRegistry(handlers, runs=True).admit(payload)


def install(folder: Path, **functions: str) -> None:
    """A package with entry points of these names; each value is the source of a function of that name."""
    info = folder / "shop-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    lines = "".join(f"{name} = shop:{name}\n" for name in functions)
    (info / "entry_points.txt").write_text(f"[headrace.scheduler.handlers]\n{lines}")
    (folder / "shop.py").write_text("import threading\n\n\n" + "\n\n".join(functions.values()))
    sys.path.insert(0, str(folder))


async def test_functions_of_packages_are_called_with_the_job(tmp_path: Path, own_modules: None) -> None:
    install(
        tmp_path,
        slow="async def slow(job, n):\n    return [job.fencing_token, n]\n",
        plain="def plain(job):\n    return job.job_id\n",
        wrapped="def wrapped(job):\n    return slow(job, 3)\n",
    )
    assert await PythonCall().run(job(type="python", name="slow", arguments={"n": 2})) == [7, 2]
    assert await PythonCall().run(job(type="python", name="plain")) == JOB
    assert await PythonCall().run(job(type="python", name="wrapped")) == [7, 3], "and not a coroutine that never ran"


@pytest.mark.parametrize("word", ["def", "async def"])
async def test_a_generator_has_not_run(word: str, tmp_path: Path, own_modules: None) -> None:
    install(tmp_path, steps=f"{word} steps(job):\n    yield 1\n")
    with pytest.raises(Dead, match="nothing of it has run"):
        await PythonCall().run(job(type="python", name="steps"))


async def test_no_plain_function_waits_for_the_thread_of_another(tmp_path: Path, own_modules: None) -> None:
    """More than asyncio's own pool has: whoever waited there would time out without having run."""
    count = 40
    install(tmp_path, meet=f"ALL = threading.Barrier({count})\n\n\ndef meet(job):\n    return ALL.wait(60)\n")
    handler = PythonCall()
    met = await asyncio.gather(*(handler.run(job(type="python", name="meet")) for _ in range(count)))
    assert set(met) == set(range(count))


async def test_a_plain_function_keeps_its_place_until_it_ends(tmp_path: Path, own_modules: None) -> None:
    install(
        tmp_path,
        wait="BEGUN, GO = threading.Event(), threading.Event()\n\n\ndef wait(job):\n    BEGUN.set()\n    GO.wait(60)\n",
    )
    running = asyncio.ensure_future(PythonCall().run(job(type="python", name="wait")))
    await eventually(lambda: "shop" in sys.modules and sys.modules["shop"].BEGUN.is_set(), "it runs")
    running.cancel()
    await turn()
    await turn()
    assert not running.done(), "a worker that cancelled it sees that it goes on"
    sys.modules["shop"].GO.set()
    await asyncio.wait([running])
    assert running.cancelled()


class Returns:
    """A handler with this result."""

    def __init__(self, result: object) -> None:
        self._result = result

    def check(self, payload: Mapping[str, Any]) -> None: ...

    async def run(self, running: RunningJob) -> object:
        return self._result


CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "result", [{(1, 2): 3}, CIRCLE, "\udcff", "x" * (RESULT_BYTES_MAX + 1)], ids=["keys", "circle", "surrogate", "size"]
)
async def test_a_result_that_cannot_be_kept_ends_its_job(result: object) -> None:
    """Its settlement would fail every time, and the job would run for ever."""
    context: Any = SimpleNamespace(key=JOB, fence=1, attempt=1, report=nobody)
    with pytest.raises(Dead, match="result"):
        await HandlerRegistry({"": Returns(result)})(None, context)


@pytest.mark.parametrize("url", ["http://user:hunter2@h/a?api_key=k1", "http://h/a?user:hunter2@k1"])
async def test_an_error_shows_neither_who_calls_nor_with_which_parameters(url: str) -> None:
    with pytest.raises(Dead) as caught:
        await HttpCall(()).run(job(url=url))
    assert caught.value.rule == "not_allowed"
    assert str(caught.value).startswith("http://h/a is not allowed")
