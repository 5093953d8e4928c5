"""Libraries below do not take threads of their own, and let go of the interpreter: lanes are threads."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import json, threading, time
import cv2, numpy as np
from threadpoolctl import threadpool_info
before = cv2.getNumThreads()
from headrace_matching.vision.embedding import ClassicEmbedder
from headrace_matching.vision.keypoints import SiftFinder
from headrace_matching.vision.neighbours import Neighbours
from headrace_matching.vision.pictures import Picture
imported = cv2.getNumThreads()
finder = SiftFinder()
Neighbours(np.zeros((2, 8), np.float32))
pools = {each["num_threads"] for each in threadpool_info()}

pixels = np.random.default_rng(1).integers(0, 255, (480, 640, 3)).astype(np.uint8)
picture = Picture(pixels, 1.0, 640, 480)
started, ended = threading.Event(), threading.Event()
def long():
    started.set()
    finder.find(picture)
    ended.set()
lane = threading.Thread(target=long)
lane.start()
started.wait()
turns = 0
while not ended.is_set():
    turns += 1
lane.join()
after = cv2.getNumThreads()
print(json.dumps({"before": before, "imported": imported, "after": after, "pools": list(pools), "turns": turns}))
"""


def test_one_thread_each_and_the_interpreter_is_free() -> None:
    """In a process of its own, since all of it is true of a process."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    told = json.loads(done.stdout)
    assert told["imported"] == told["before"]
    assert told["after"] == 1
    assert told["pools"] == [1]
    # One call of OpenCV is most of `find`: were the interpreter held in it, this loop would turn a few times only.
    assert told["turns"] > 10_000
