"""`headrace pm up --rig`: one command on real servers, and others that find the same data."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Protocol

from pm_clickhouse_world import connected, table_rows
from pm_kafka_world import settings_of
from pm_pipeline_world import row_values, table_values, true_values
from waiting import until

from headrace.commands import environment_without
from headrace.services import Program
from headrace.testing import ServiceProcess
from headrace.testing.rig.places import LOG, writers_of
from headrace_pm.clickhouse.settings import ClickHouseSettings
from headrace_pm.network.truth import CounterKey, true_rows

READY_S_MAX = 120.0
QUICK = {"PM_HTTP_PORT": "0", "PM_SCAN_INTERVAL_S": "0.3", "PM_SETTLE_S": "0.1", "PM_MOVE_INTERVAL_S": "0.5"}


class Command(Protocol):
    def __call__(self, *arguments: str, **variables: str) -> CompletedProcess[str]: ...


async def clickhouse_values(settings: ClickHouseSettings) -> dict[CounterKey, tuple[object, ...]]:
    async with connected(settings) as clickhouse:
        return row_values(await table_rows(clickhouse))


def test_one_command_takes_files_on_real_servers(tmp_path: Path, headrace_command: Command) -> None:
    words = (sys.executable, "-m", "headrace", "pm", "up", "--rig")
    environment = {**environment_without("PM_"), **QUICK, "PM_CLICKHOUSE_BLOCK_S": "0.5"}
    up = ServiceProcess(Program("pm up", words, environment), tmp_path / "log", tmp_path)
    try:
        up.line_with("export PM_CLICKHOUSE_URL=").result(READY_S_MAX)
        taken = up.line_with("files are taken from ").result(READY_S_MAX)
        folder = taken.removeprefix("files are taken from ").partition(", ")[0]
        plan, truth = tmp_path / "plan", tmp_path / "truth.jsonl"
        made = ("--files", "5", "--counters", "300", "--plan", str(plan), "--truth", str(truth))
        variables = up.exported
        assert headrace_command("pm", "generate", str(tmp_path / "made"), *made).returncode == 0
        assert headrace_command("pm", "import", str(plan), **variables).returncode == 0
        for path in (tmp_path / "made").iterdir():
            (Path(folder) / path.name).write_bytes(path.read_bytes())
        wanted = true_values(true_rows(truth))
        until(lambda: table_values(variables["PM_MYSQL_DSN"]) == wanted, "MariaDB has the rows")
        bootstrap = f"kafka://{variables['PM_KAFKA_BOOTSTRAP']}/pm.counters"
        settings = settings_of(bootstrap, variables["PM_CLICKHOUSE_URL"])
        until(lambda: asyncio.run(clickhouse_values(settings)) == wanted, "ClickHouse has the rows")

        def moved() -> bool:
            told = json.loads(headrace_command("pm", "status", "--json", **variables).stdout)
            return bool(told["states"]["MOVED"]["files"] == 5)

        until(moved, "all files are in the archive")
        # Nobody notices by himself that a server of the rig has gone: everything waits for it.
        home = Path(folder).parents[1]
        for process in writers_of(home / LOG):
            os.kill(process, signal.SIGKILL)
        until(lambda: "ftp of the rig has ended" in (tmp_path / "log").read_text("utf-8"), "it is told")
    finally:
        code = up.stop()
    assert code == 0
