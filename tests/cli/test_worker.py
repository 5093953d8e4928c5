"""Worker processes under their supervisor: drains, crashes, freezes and code that does not import."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import headrace
from headrace.core.jobs import JobView

Started = Callable[..., "subprocess.Popen[str]"]
Command = Callable[..., "subprocess.CompletedProcess[str]"]

# Each handler says through a pipe who runs it, so that a test waits for what happens and not for a while.
APP = """
import asyncio, fcntl, os, signal, time
import headrace

flow = headrace.Flow("slow")


def tell(word: str) -> None:
    with open("told", "w") as pipe:
        pipe.write(f"{word} {os.getpid()}\\n")


@flow.stage(concurrency=1)
async def work(what: str) -> None:
    if what == "crash" and not os.path.exists("crashed"):
        open("crashed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "freeze" and not os.path.exists("frozen"):
        open("frozen", "w").close()
        lock = os.open("headrace.db-writer", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.pwrite(lock, f"{os.getpid():>10} {time.monotonic():>20.3f}\\n".encode(), 0)
        os.kill(os.getpid(), signal.SIGSTOP)
    if what in ("long", "endless"):
        tell("started")
        await (asyncio.sleep(1.0) if what == "long" else asyncio.Event().wait())
"""


@pytest.fixture
def told(here: Path) -> Callable[[], tuple[str, int]]:
    """Wait until a handler says something: the word and its process."""
    (here / "app.py").write_text(APP)
    os.mkfifo(here / "told")

    def wait() -> tuple[str, int]:
        word, pid = (here / "told").read_text().split()
        return word, int(pid)

    return wait


async def submit(here: Path, *whats: str) -> str:
    async with headrace.connect(str(here / "headrace.db")) as engine:
        flow = headrace.Flow("slow")

        @flow.stage(concurrency=1)
        async def work(what: str) -> None: ...

        return await engine.submit_many(flow, whats)


async def look(here: Path, job: str) -> tuple[JobView, int]:
    """The job, and the attempts spent by items that wait; its account must be right."""
    async with headrace.connect(str(here / "headrace.db")) as engine:
        assert await engine.verify(job) == []
        items = await engine.items(job, "work")
        return await engine.job(job), sum(item.retries for item in items if item.state == "waiting")


async def test_a_term_drains_what_is_started_and_gives_back_the_rest(
    started: Started, here: Path, told: Callable[[], tuple[str, int]]
) -> None:
    job = await submit(here, "long", "quick", "quick")
    worker = started("worker", "app:flow")
    told()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    view, spent = await look(here, job)
    assert view.stages["work"].done == 1
    assert (view.stages["work"].waiting, view.stages["work"].held) == (2, 0)
    assert spent == 0


async def test_a_second_term_stops_now_and_spends_no_attempt(
    started: Started, here: Path, told: Callable[[], tuple[str, int]]
) -> None:
    job = await submit(here, "endless")
    worker = started("worker", "app:flow")
    told()
    worker.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGINT)
    assert worker.wait(10) == 0
    view, spent = await look(here, job)
    assert (view.stages["work"].waiting, view.stages["work"].held) == (1, 0)
    assert spent == 0


async def test_a_drain_has_an_end(started: Started, here: Path, told: Callable[[], tuple[str, int]]) -> None:
    job = await submit(here, "endless")
    worker = started("worker", "app:flow", "--drain-s", "0.2")
    told()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(10) == 0
    view, _ = await look(here, job)
    assert view.stages["work"].waiting == 1


async def test_a_crashed_child_is_replaced_and_its_item_runs_again(
    headrace_process: Command, here: Path, told: Callable[[], tuple[str, int]]
) -> None:
    job = await submit(here, "quick", "crash", "quick")
    worked = headrace_process("worker", "app:flow", "--until-idle", "--hold-s", "1")
    assert worked.returncode == 0, worked.stderr
    assert "was killed by SIGKILL; another one starts" in worked.stderr
    view, _ = await look(here, job)
    assert (view.state, view.stages["work"].done) == (headrace.JobState.FINISHED, 3)


async def test_a_child_frozen_inside_a_write_is_killed(
    headrace_process: Command, here: Path, told: Callable[[], tuple[str, int]]
) -> None:
    job = await submit(here, "freeze", "quick")
    worked = headrace_process("worker", "app:flow", "--until-idle", "--hold-s", "1.5", "--processes", "2")
    assert worked.returncode == 0, worked.stderr
    assert "frozen inside a write" in worked.stderr
    view, _ = await look(here, job)
    assert (view.state, view.stages["work"].done) == (headrace.JobState.FINISHED, 2)


async def test_children_die_with_their_parent(
    started: Started, here: Path, told: Callable[[], tuple[str, int]]
) -> None:
    await submit(here, "endless")
    worker = started("worker", "app:flow")
    _, child = told()
    handle = os.pidfd_open(child)
    worker.kill()
    worker.wait(10)
    try:
        # The child is not ours to wait for, but its descriptor becomes readable when it is gone.
        assert select.select([handle], [], [], 10)[0] == [handle]
    finally:
        os.close(handle)


def test_code_that_does_not_import_ends_the_worker_at_once(headrace_process: Command, here: Path) -> None:
    (here / "app.py").write_text("import nothing_like_this\n")
    done = headrace_process("worker", "app:flow", "--processes", "3")
    assert done.returncode == 2
    assert done.stderr.count("nothing_like_this") >= 1
    assert done.stderr.count("cannot import 'app'") == 1
    assert "another one starts" not in done.stderr


def test_two_flows_of_one_name_are_refused(headrace_process: Command, here: Path) -> None:
    (here / "twin.py").write_text((here / "app.py").read_text())
    done = headrace_process("worker", "app:flow", "twin:flow")
    assert done.returncode == 2
    assert "two flows are called 'greet'" in done.stderr


def test_a_store_that_does_not_answer_ends_the_worker_at_once(headrace_process: Command, here: Path) -> None:
    done = headrace_process("worker", "app:flow", HEADRACE_STORE="postgresql://me:topsecret@127.0.0.1:1/db")
    assert done.returncode == 5, done.stderr
    assert "topsecret" not in done.stderr


async def test_a_deleted_store_ends_all_workers_and_is_not_made_anew(
    started: Started, here: Path, told: Callable[[], tuple[str, int]]
) -> None:
    await submit(here, "endless")
    worker = started("worker", "app:flow", "--processes", "2")
    told()
    (here / "headrace.db").unlink()
    _, said = worker.communicate(timeout=20)
    assert worker.returncode == 7, said
    assert "headrace.db was deleted while it was open: what is written now is lost" in said
    assert "another one starts" not in said
    assert not (here / "headrace.db").exists()


async def test_a_child_that_crashes_is_not_started_again_on_another_store(
    started: Started, here: Path, told: Callable[[], tuple[str, int]]
) -> None:
    await submit(here, "endless")
    worker = started("worker", "app:flow")
    _, child = told()
    # Stopped, so that the child cannot notice by itself: its supervisor must.
    os.kill(child, signal.SIGSTOP)
    (here / "headrace.db").unlink()
    os.kill(child, signal.SIGKILL)
    _, said = worker.communicate(timeout=20)
    assert worker.returncode == 7, said
    assert "was deleted while it was open" in said
    assert not (here / "headrace.db").exists()


def test_a_module_that_ends_the_process_is_told(headrace_process: Command, here: Path) -> None:
    (here / "app.py").write_text("import sys\nsys.exit(3)\n")
    done = headrace_process("worker", "app:flow")
    assert done.returncode == 2
    assert "cannot import 'app': SystemExit: 3" in done.stderr


def test_a_child_that_dies_without_a_word_is_told(headrace_process: Command, here: Path) -> None:
    (here / "app.py").write_text("import os\nos._exit(9)\n")
    done = headrace_process("worker", "app:flow")
    assert done.returncode == 9
    assert "ended with exit code 9 before it was ready" in done.stderr


STUBBORN = """
import asyncio
import headrace
from app import tell

flow = headrace.Flow("slow")


@flow.stage(concurrency=1)
async def work(what: str) -> None:
    tell("started")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
"""


async def test_a_handler_that_never_ends_does_not_keep_its_process(
    started: Started, here: Path, told: Callable[[], tuple[str, int]]
) -> None:
    (here / "stubborn.py").write_text(STUBBORN)
    await submit(here, "stubborn")
    worker = started("worker", "stubborn:flow", "--drain-s", "60")
    _, child = await asyncio.to_thread(told)
    ended = os.pidfd_open(child)
    os.kill(child, signal.SIGINT)
    try:
        assert select.select([ended], [], [], 30)[0], "it did not end"
    finally:
        os.close(ended)
        worker.kill()


def work_without_a_log(here: Path) -> int:
    """The exit code of a worker whose every line fails."""
    command = (sys.executable, "-m", "headrace", "worker", "app:flow", "--until-idle", "--hold-s", "1")
    with Path("/dev/full").open("w") as full:
        return subprocess.run(command, cwd=here, stderr=full, timeout=60, check=False).returncode


async def test_a_log_that_cannot_be_written_stops_no_work(here: Path, told: Callable[[], tuple[str, int]]) -> None:
    failing = "    if what == 'fail':\n        raise headrace.Dead('x')\n    if what"
    (here / "app.py").write_text(APP.replace("    if what", failing, 1))
    job = await submit(here, "fail", "crash", "quick", "fail")
    assert await asyncio.to_thread(work_without_a_log, here) == 0
    tally = (await look(here, job))[0].stages["work"]
    assert (tally.done, tally.dead) == (2, 2)


async def test_one_document_is_all_that_a_worker_prints(
    headrace_process: Command, here: Path, told: Callable[[], tuple[str, int]]
) -> None:
    (here / "app.py").write_text(APP.replace("    if what", "    print('talk')\n    if what", 1))
    await submit(here, "crash", "quick")
    worked = headrace_process("worker", "app:flow", "--until-idle", "--hold-s", "1", "--json")
    assert json.loads(worked.stdout) == {"exit_code": 0, "restarts": 1, "kills": 1, "frozen": 0, "still": 0}
    assert "talk" in worked.stderr


async def test_waiting_for_idleness_ends_where_nobody_has_the_handler(
    headrace_process: Command, here: Path, told: Callable[[], tuple[str, int]]
) -> None:
    job = await submit(here, "quick")
    (here / "app.py").write_text(APP.replace('Flow("slow")', 'Flow("renamed")'))
    worked = headrace_process("worker", "app:flow", "--until-idle")
    assert worked.returncode == 1
    assert f"1 job stays open: no handler here for slow/work (the first job is {job})" in worked.stderr
    assert "start a worker with the code that submitted them" in worked.stderr


HANGS = """
import os, threading
import headrace

flow = headrace.Flow("slow")


@flow.stage(concurrency=1, timeout_s=0.2, retry=headrace.backoff(1), tolerate=1)
def work(what: str) -> None:
    if what == "hang":
        threading.Event().wait()
"""


async def test_a_child_whose_threads_hang_is_replaced(headrace_process: Command, here: Path) -> None:
    (here / "app.py").write_text(HANGS)
    async with headrace.connect(str(here / "headrace.db")) as engine:
        flow = headrace.Flow("slow")

        @flow.stage(tolerate=1)
        async def work(what: str) -> None: ...

        job = await engine.submit_many(flow, ["hang", "quick", "quick"])
    worked = headrace_process("worker", "app:flow", "--until-idle", "--hold-s", "2")
    assert worked.returncode == 0, worked.stderr
    assert "thread.hung" in worked.stderr
    assert "1 handlers did not end after their timeout" in worked.stderr
    assert "ended with exit code 1; another one starts" in worked.stderr
    view, _ = await look(here, job)
    assert (view.state, view.stages["work"].done, view.stages["work"].dead) == (headrace.JobState.FINISHED, 2, 1)
