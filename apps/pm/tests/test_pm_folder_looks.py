"""A server that is away and a folder that is missing: no other file waits for it, and whoever asks is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from pm_operator_world import query
from prometheus_client import CollectorRegistry
from waiting import eventually

from headrace.services import Sources, read
from headrace.testing.rig.ftp import PASSWORD, FtpServer
from headrace_pm.ftp.errors import ServerAway
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.kafka.settings import PREFIX
from headrace_pm.observe.pipeline_metrics import PipelineMetrics
from headrace_pm.service import PmService
from headrace_pm.settings import PmSettings
from headrace_pm.work.pipeline import FilePipeline, PipelineRoles, open_pipeline, tables_of

Command = Callable[..., "CompletedProcess[str]"]
FAILING = "pm_pipeline_folder_failing"
# A port at which nothing listens.
NOBODY = 1


def place_of(url: str, tmp_path: Path) -> dict[str, str]:
    where = {"PM_HOME": str(tmp_path)} if url.startswith("sqlite") else {"PM_MYSQL_DSN": url}
    return {**where, "PM_TEST_PASSWORD": PASSWORD, "PM_FTP_CONNECT_S": "2", "PM_SCAN_INTERVAL_S": "0.2"}


@asynccontextmanager
async def scanning(place: dict[str, str], registry: CollectorRegistry) -> AsyncIterator[tuple[FilePipeline, PmService]]:
    settings = read(PmSettings, Sources(PREFIX, place))
    async with tables_of(settings) as tables:
        metrics = PipelineMetrics(registry, tables)
        async with open_pipeline(settings, PipelineRoles(scan=True), metrics) as pipeline:
            yield pipeline, PmService("scan", pipeline, registry, metrics)


async def answers(service: PmService) -> dict[str, str]:
    """Of each folder what its last look met."""
    found = {}
    for name, part in service.beside().items():
        try:
            await part.answers()
        except Exception as error:
            found[name] = type(error).__name__
        else:
            found[name] = "ok"
    return found


async def told(pipeline: FilePipeline, service: PmService, expected: dict[str, str]) -> None:
    """Looks go on by themselves; what they met is written by the round behind them."""

    async def is_told() -> bool:
        await pipeline.scan.round()
        return await answers(service) == expected

    await eventually(is_told, lambda: f"the looks meet {expected}")
    await pipeline.scan.round()


async def status(run: Command, place: dict[str, str]) -> list[dict[str, Any]]:
    done = await asyncio.to_thread(run, "--json", "pm", "status", **place)
    assert done.returncode == 0, done.stderr
    # The looks of this process go on meanwhile, and log to the same place.
    servers: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["servers"]
    return servers


async def test_folders_that_cannot_be_listed_are_told(
    headrace_command: Command, operator_url: str, ftp_site: FtpServer, tmp_path: Path
) -> None:
    place, registry, away = place_of(operator_url, tmp_path), CollectorRegistry(), NOBODY
    here, gone = f"127.0.0.1_{ftp_site.port}_rig", f"127.0.0.1_{away}_rig"
    (ftp_site.files / "A").mkdir()
    (ftp_site.files / "A" / "x.dat").write_bytes(b"x")
    async with scanning(place, registry) as (pipeline, service):
        query(
            operator_url,
            f"INSERT INTO ftp_server VALUES (1, '5GA', '127.0.0.1', {ftp_site.port}, 'rig', 'env:PM_TEST_PASSWORD'),"
            f" (2, '4GA', '127.0.0.1', {away}, 'rig', 'env:PM_TEST_PASSWORD')",
            "INSERT INTO ftp_path VALUES (1, 1, '/A/'), (2, 1, '/B/'), (3, 2, '/A/')",
        )
        first = await status(headrace_command, place)
        assert [(each["server"], each["files"], each["folders"][0]["looked_at"]) for each in first] == [
            (here, 0, None),
            (gone, 0, None),
        ]
        folders = (f"folder 5GA {here} /A/", f"folder 5GA {here} /B/", f"folder 4GA {gone} /A/")
        await told(pipeline, service, dict(zip(folders, ("ok", "FolderMissing", "ServerAway"), strict=True)))
        assert set(service.parts) == {"tables", "loop_scan", "loop_metrics"}, "it is ready without them"
        found = {folder["path"]: folder for folder in (await status(headrace_command, place))[0]["folders"]}
        assert (found["/A/"]["files"], found["/A/"]["error"]) == (1, None)
        assert "enter /B/: 550" in found["/B/"]["error"]
        assert (found["/B/"]["listed_at"], found["/B/"]["failing_since"]) == (None, found["/B/"]["looked_at"])
        failing = [registry.get_sample_value(FAILING, {"server": here, "path": path}) for path in ("/A/", "/B/")]
        assert failing == [0.0, 1.0]
        # It is mended, and the other server is taken out.
        (ftp_site.files / "B").mkdir()
        query(operator_url, "DELETE FROM ftp_path WHERE id = 3", "DELETE FROM ftp_server WHERE id = 2")
        await told(pipeline, service, {folders[0]: "ok", folders[1]: "ok"})
        assert registry.get_sample_value(FAILING, {"server": gone, "path": "/A/"}) is None
        (only,) = await status(headrace_command, place)
        assert [(folder["error"], folder["failing_since"]) for folder in only["folders"]] == [(None, None)] * 2
        since = found["/A/"]["looked_at"]
        assert {folder["path"]: folder["looked_at"] for folder in only["folders"]}["/A/"] == since, "not at every look"


async def test_what_was_listed_before_says_since_when_it_fails(operator_url: str, tmp_path: Path) -> None:
    folder = ServerFolder("5GA", "h_21_u", "/a/")
    async with scanning(place_of(operator_url, tmp_path), CollectorRegistry()) as (pipeline, _service):
        looks = pipeline.scan.folders
        looks.listed(folder, 3)
        await looks.write()
        failed = "SELECT listed_at, failing_since, looked_at, files, error FROM pm_folder_look"
        [(listed_at, *_)] = query(operator_url, failed)
        met = ("no answer (asked again in 1.5 s)", "no answer (asked again in 0.5 s)", "cut")
        assert [looks.failed(folder, ServerAway(words)) for words in met] == [True, False, True], "told once"
        await looks.write()
        [(still, since, looked_at, files, words)] = query(operator_url, failed)
        assert (still, files, words, since) == (listed_at, 3, "cut", looked_at)
        looks.failed(folder, ServerAway("refused"))
        await looks.write()
        [(_, same, later, _, words)] = query(operator_url, failed)
        assert (same, words) == (since, "refused")
        assert later > looked_at
