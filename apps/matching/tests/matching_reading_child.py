"""Reads each file of a folder as a picture or a video and says what came of it, what it took, and the peak of memory.

A process of its own, so that the peak is this one's, and a decoder that crashes ends it and not the tests.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from headrace_matching.vision.assets import BadAsset
from headrace_matching.vision.keyframes import keyframes
from headrace_matching.vision.pictures import read


def looked_at(path: Path) -> dict[str, object]:
    told: dict[str, object] = {"name": path.name, "keyframes": 0}
    begun = time.process_time()
    try:
        if path.parent.name == "videos":
            for count, _ in enumerate(keyframes(path), 1):
                told["keyframes"] = count
        else:
            picture = read(path.read_bytes())
            told["size"] = [picture.width, picture.height]
            told["kept"] = max(picture.pixels.shape[:2])
    except BadAsset as error:
        told["reason"] = error.reason
    told["seconds"] = time.process_time() - begun
    told["peak_mb"] = peak_mb()
    return told


def peak_mb() -> int:
    """Since this program was loaded; what `getrusage` tells begins with the size of whoever started it."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) // 1024


if __name__ == "__main__":
    for each in sorted(Path(sys.argv[1]).iterdir()):
        print(json.dumps(looked_at(each)), flush=True)
