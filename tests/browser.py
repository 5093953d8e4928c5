"""A browser that a test looks into and acts in, over the pipe it offers for that.

As a program it takes pictures of a page, to be looked at: `python tests/browser.py report.html pictures/`.
"""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from headrace.testing.rig.catalogue import TOOLS
from headrace.testing.rig.installation import obtain

ANSWER_S_MAX = 60.0
# The browser expects its pipe as the files 3 and 4.
_BEGIN = "import os, sys; [os.dup2(int(sys.argv[n + 1]), n + 3) for n in (0, 1)]; os.execv(sys.argv[3], sys.argv[3:])"
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe")


class Browser:
    """One window. `said` is what its console was told."""

    def __init__(self, chromium: str, profile: Path, url: str) -> None:
        self.said: list[str] = []
        self._loads = 0
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        line = [chromium, *_FLAGS, f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BEGIN, str(theirs_in), str(theirs_out), *line],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._read, self._number, self._session = b"", 0, ""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self._ask(f"{domain}.enable")
        self.open(url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def open(self, url: str) -> None:
        """Go to a page and wait until it is there with everything it brings."""
        loads = self._loads
        self._ask("Page.navigate", url=url)
        while self._loads == loads:
            self._note(self._next())

    def narrow(self, width: int, height: int = 800) -> None:
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=True)

    def prefer(self, scheme: str, medium: str = "screen") -> None:
        """Show it `light` or `dark`, on a screen or in print."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", media=medium, features=features)

    def scripts(self, enabled: bool) -> None:
        """Whether pages opened from now on may run scripts of their own."""
        self._ask("Emulation.setScriptExecutionDisabled", value=not enabled)

    def picture(self) -> bytes:
        """The whole page as PNG."""
        shown = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shown["data"])

    def violations(self) -> list[str]:
        """What axe-core finds wrong with the page as it is shown."""
        self.run(TOOLS["axe-core"].path().read_text("utf-8") + ";0")
        found = self.run("axe.run().then(told => told.violations.map(each => [each.id, each.nodes.map(n => n.html)]))")
        return [f"{rule}: {len(nodes)} × {nodes[0][:300]}" for rule, nodes in found]

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._number:
                assert "error" not in told, told
                return dict(told["result"])
            self._note(told)

    def _note(self, told: dict[str, Any]) -> None:
        if told.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.said.append(json.dumps(told["params"]))
        self._loads += told.get("method") == "Page.loadEventFired"

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + ANSWER_S_MAX
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._in, 1_000_000)
            assert part, "the browser is gone"
            self._read += part
        message, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(message))


def chromium_path() -> str:
    """The browser of the machine, got if it is missing, and axe-core with it."""
    obtain(["chromium", "axe-core"])
    return str(TOOLS["chromium"].path())


def _take_pictures(page: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with Browser(chromium_path(), folder / "profile", page.resolve().as_uri()) as browser:
        for width, scheme in ((1_440, "light"), (1_440, "dark"), (390, "light"), (390, "dark")):
            browser.prefer(scheme)
            browser.narrow(width)
            (folder / f"{page.stem}-{width}-{scheme}.png").write_bytes(browser.picture())
            print(width, scheme, browser.violations(), browser.run("document.documentElement.scrollWidth"))
        print(browser.said)


if __name__ == "__main__":
    _take_pictures(Path(sys.argv[1]), Path(sys.argv[2]))
