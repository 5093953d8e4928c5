"""How many threads OpenCV and the linear algebra below it and below numpy take: one.

Each has a pool with a thread per core, which is right for a program that handles one picture at a time. Here several
lanes handle a picture each, and pools in each of them would only take the cores from one another (those of OpenBLAS
wait by turning round, so that they cost even when they do nothing).

Threads or processes? Decoding, OpenCV and linear algebra let go of the interpreter while they work: of finding
keypoints, which is nine tenths of what an asset costs, 96 % of the time is inside OpenCV. Per second of processor time
two threads described between 5 % fewer and 2 % more assets than one, in four runs of `bench/matching_vision.py --only
lanes`. Processes were measured in wall time only, on a busy machine, and won as often as they lost. Lanes are threads
because those share models and indexes, and lose little.
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
