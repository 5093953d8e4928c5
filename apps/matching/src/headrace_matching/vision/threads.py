"""How many threads OpenCV and the linear algebra below it and below numpy take: one.

Each has a pool with a thread per core, which is right for a program that handles one picture at a time. Here several
lanes handle a picture each, and pools in each of them would only take the cores from one another (those of OpenBLAS
wait by turning round, so that they cost even when they do nothing).

Threads or processes? Decoding, OpenCV and linear algebra let go of the interpreter while they work: of finding
keypoints, which is nine tenths of what an asset costs, 96 % of the time is inside OpenCV, and two threads describe as
many assets per second of processor time as one (12.1 and 12.3, measured by `bench/matching_vision.py --only lanes`).
Processes could win no more than these two per cent, and would hold every model and index twice: lanes are threads.
"""

from __future__ import annotations

from functools import cache

import cv2
from threadpoolctl import threadpool_limits


@cache
def one_thread_each() -> None:
    """From now on a call works in the thread that made it. For the whole process; a second time changes nothing."""
    cv2.setNumThreads(1)
    threadpool_limits(1)
