"""Posts, messages and modules for the tests of the analytics service."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from headrace.ports import Delivery, Event
from headrace_smap.analytics.modules import Draft, ModuleOptions, Pipeline, pipeline
from headrace_smap.envelope import DATA_COLLECTED

PROJECT = "proj_abc"
GOOD = {"id": "vid_1", "platform": "TikTok", "text": "Xe chạy rất êm, rất đáng tiền!", "metrics": {"likes": 12}}
BAD_BLOBS: dict[str, bytes] = {
    "blob_truncated": b'{"id": "1", "platform": "tiktok", "text": "xin ch',
    "blob_json": b'{"id": "1", platform: "tiktok"}',
    "blob_encoding": json.dumps(GOOD, ensure_ascii=False).encode("utf-16"),
    "post_not_an_object": b"[1, 2]",
    "post_without_id": b'{"platform": "tiktok", "text": "x"}',
    "post_without_platform": b'{"id": "1", "text": "x"}',
    "post_without_text": b'{"id": "1", "platform": "tiktok"}',
}
"""A blob for each thing that can be wrong with one, under the rule that says so."""
ENTRY_POINTS = "[headrace.smap.modules]\ndeadly = smap_deadly:Deadly\n"
DEADLY = "from smap_posts import Deadly\n"


def post(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}, ensure_ascii=False).encode()


def message(path: str, project: str = PROJECT, **more: Any) -> bytes:
    payload = {"project_id": project, "platform": "TIKTOK", "minio_path": path, **more}
    return json.dumps({"event_id": f"evt_{path}", "payload": payload}).encode()


def delivery(body: bytes, number: int = 1, deliveries: int = 1) -> Delivery:
    return Delivery("smap.analytics", number, 1, Event(f"evt_{number}", DATA_COLLECTED, body), deliveries)


class Deadly:
    """A module that a post can use to end its process, to hang or to fail: whatever its text says."""

    name, version = "deadly", "1"

    def __init__(self, options: ModuleOptions) -> None:
        del options

    def apply(self, draft: Draft) -> None:
        match draft.post.text:
            case "die":
                os._exit(9)
            case "hang":
                threading.Event().wait()
            case "fail":
                raise ZeroDivisionError("by nothing")
            case "leave":
                raise SystemExit(3)
            case "print":
                os.write(1, b"out of turn")


def deadly() -> Pipeline:
    return Pipeline([Deadly(ModuleOptions())])


def nothing() -> Pipeline:
    return pipeline(["nothing"])


def install_deadly(folder: Path) -> dict[str, str]:
    """What a process needs to find the deadly module, as if a package had brought it."""
    package = folder / "smap_deadly-1.dist-info"
    package.mkdir(parents=True)
    (package / "entry_points.txt").write_text(ENTRY_POINTS)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: smap-deadly\nVersion: 1\n")
    (folder / "smap_deadly.py").write_text(DEADLY)
    path = os.pathsep.join((str(folder), str(Path(__file__).parent)))
    return {"PYTHONPATH": path, "SMAP_MODULES": "deadly"}
