"""The page of the report as a browser sees it."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from silver_report_sample import HOSTILE, large, small

from headrace.testing.rig.catalogue import TOOLS
from headrace.testing.rig.installation import obtain
from headrace_silver.quality.values import Quality
from headrace_silver.report import terminal

BROWSER_S_MAX = 60
# The page stands in frames of a phone's and a desk's width; a window of the browser cannot be that narrow.
FRAMES = """<!doctype html><meta charset=utf-8><body>
{frames}
<pre id=answer></pre><script>
onload = () => {
  document.getElementById("answer").textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, root = page.documentElement;
    return {wide: root.scrollWidth, room: root.clientWidth, scripts: page.scripts.length,
            rows: page.querySelectorAll(".heat tbody tr").length, strip: page.querySelector(".strip").clientWidth,
            words: page.body.textContent};
  }));
};
</script>"""


@pytest.fixture(scope="module")
def quality(tmp_path_factory: pytest.TempPathFactory) -> Quality:
    return small(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def chromium() -> str:
    obtain(["chromium"])
    found = TOOLS["chromium"].found()
    assert found is not None
    return str(found)


def opened(chromium: str, folder: Path, page: str) -> tuple[str, str]:
    """The page after its scripts have run, and what was said on the console."""
    line = [
        chromium,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--enable-logging=stderr",
        "--allow-file-access-from-files",
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=1700,900",
        "--virtual-time-budget=5000",
        "--dump-dom",
        (folder / page).as_uri(),
    ]
    answer = subprocess.run(line, capture_output=True, text=True, timeout=BROWSER_S_MAX, check=True)
    said = [told for told in answer.stderr.splitlines() if "CONSOLE" in told]
    return answer.stdout, "\n".join(said)


def frames(chromium: str, folder: Path, *widths: int) -> tuple[list[dict[str, Any]], str]:
    text = "".join(f"<iframe width={width} height=700 src=report.html></iframe>" for width in widths)
    (folder / "frames.html").write_text(FRAMES.replace("{frames}", text), "utf-8")
    text, said = opened(chromium, folder, "frames.html")
    found = re.search(r'<pre id="answer">(.+?)</pre>', text, re.DOTALL)
    assert found, text[:2_000]
    answer: list[dict[str, Any]] = json.loads(unescape(found[1]))
    return answer, said


def test_the_page_fits_a_phone_and_a_desk_and_complains_of_nothing(
    chromium: str, tmp_path: Path, quality: Quality
) -> None:
    terminal.write_html(quality, tmp_path / "report.html")
    answers, said = frames(chromium, tmp_path, 360, 1280)
    assert said == ""
    for answer, width in zip(answers, (360, 1280), strict=True):
        assert answer["wide"] <= answer["room"] <= width
        assert answer["scripts"] == 0
        assert answer["rows"] == len([entry for entry in quality.symbols if entry.expected])
        assert answer["strip"] > 150
        assert "<script>alert('x')</script> Cổ phiếu" in answer["words"]
        assert HOSTILE.replace("\x1b", "�") in answer["words"]


def test_a_page_of_the_whole_market_opens(chromium: str, tmp_path: Path) -> None:
    terminal.write_html(large(1_600, 250), tmp_path / "report.html")
    answers, said = frames(chromium, tmp_path, 360)
    assert said == ""
    assert [answer["rows"] for answer in answers] == [1_600]
    assert answers[0]["wide"] <= answers[0]["room"]


def test_a_page_that_is_too_wide_or_complains_would_be_noticed(chromium: str, tmp_path: Path) -> None:
    text = '<!doctype html><body><p style="width:900px">x</p><i class=strip></i><script>console.error("oh")</script>'
    (tmp_path / "report.html").write_text(text, "utf-8")
    answers, said = frames(chromium, tmp_path, 360)
    assert answers[0]["wide"] > answers[0]["room"]
    assert "oh" in said
