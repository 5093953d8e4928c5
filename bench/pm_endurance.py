"""How much memory does a worker take, with large files in flight, and after very many small ones?

`large`: all files are in hand at once, of `pm worker` with a scan and a mover beside it, and of `pm all`; the peak is
that of the whole process (VmHWM), with what of it is in no file (RssAnon) beside it. `many`: small files one after the
other; RssAnon after a tenth of them, and the most in the last tenth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pm_flow_site import FlowSite
from pm_service import DONE, running

QUICK = {"PM_SCAN_INTERVAL_S": "1", "PM_SETTLE_S": "0.5", "PM_MOVE_INTERVAL_S": "2", "PM_KAFKA_FORM": "rowbinary"}
PARTS = ("worker", "all")


def large_files(site: FlowSite, files: int, counters: int, parts: Sequence[str] = PARTS) -> Iterator[dict[str, object]]:
    """So many files at once, each of them large."""
    site.make(files, counters)
    for part in parts:
        yield _large(site, files, part)


def _large(site: FlowSite, files: int, part: str) -> dict[str, object]:
    with site.place() as place:
        staged = site.stage(files)
        with running(site, place, part, **QUICK, PM_FILES_PARALLEL=str(files)) as service:
            service.memory.look()
            before_mb = service.memory.anonymous[-1]
            site.appear(staged)
            service.until(DONE, files)
            memory = service.memory
        return {
            "what": "large",
            "who": f"pm {part}",
            "files": files,
            "mb_each": round(site.sizes(files) / files / 1e6, 1),
            "rows": site.rows(place),
            "peak_mb": memory.peak_mb,
            "anonymous_mb_before": before_mb,
            "anonymous_mb_max": max(memory.anonymous),
        }


def many_files(site: FlowSite, files: int, counters: int) -> Iterator[dict[str, object]]:
    """Very many files, each of them small."""
    site.make(files, counters)
    with site.place() as place:
        staged = site.stage(files)
        with running(site, place, **QUICK) as service:
            site.appear(staged)
            service.until(DONE, max(1, files // 10))
            early_mb, seen = service.memory.anonymous[-1], len(service.memory.anonymous)
            service.until(DONE, files - files // 10)
            late = len(service.memory.anonymous) - 1
            service.until(DONE, files)
            memory = service.memory
        yield {
            "what": "many",
            "files": files,
            "rows": site.rows(place),
            "anonymous_mb_early": early_mb,
            "anonymous_mb_late": max(memory.anonymous[late:]),
            "anonymous_mb_max": max(memory.anonymous[seen:], default=early_mb),
            "peak_mb": memory.peak_mb,
        }
