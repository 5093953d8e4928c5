"""What workers send: pictures, vectors and keypoints of no meaning."""

from __future__ import annotations

import base64
from typing import Any

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 60
JPEG = b"\xff\xd8\xff\xe0" + b"\x00" * 60
EMBEDDING = {"model": "colour-1", "vector": [0.1, -2.5, 3e-9]}
MATCH = {"score": 0.9, "best_pair": {"img_id": "i", "frame_id": "f", "score_pair": 0.8}}


def keypoints(points: int = 2, **more: Any) -> dict[str, Any]:
    data = bytes(range(points * 4))
    descriptors = {"dtype": "uint8", "shape": [points, 4], "base64": base64.b64encode(data).decode(), **more}
    return {"model": "orb-1", "points": [[1.5, 2.0, 31.0, -1.0]] * points, "descriptors": descriptors}


def image(product: str, **more: Any) -> dict[str, Any]:
    return {"kind": "image", "product_id": product, "url": f"https://shop.example/{product}.jpg", **more}


def keyframe(video: str, time_s: float, **more: Any) -> dict[str, Any]:
    url = f"https://videos.example/{video}/{time_s}.jpg"
    return {"kind": "keyframe", "video_id": video, "time_s": time_s, "url": url, **more}
