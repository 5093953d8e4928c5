"""Results as analytics writes them, for tests of what people are shown."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from headrace_smap.analytics.work import COLUMNS
from headrace_smap.database import Database

AT = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
SAID = ("Xe đẹp <script>alert(1)</script>", "Pin yếu quá", "bình thường")


def post(number: int, **changes: Any) -> dict[str, Any]:
    """A result as analytics writes it."""
    sentiment = ("positive", "negative", "neutral")[number % 3]
    row: dict[str, Any] = {
        "project_id": "p",
        "minio_path": f"raw/tiktok/p/{number}.json",
        "post_id": str(number),
        "platform": ("tiktok", "facebook")[number % 2],
        "keyword": "VF3",
        "language": "vi",
        "author_name": f"user {number}",
        "published_at": AT.isoformat(),
        "day": date(2025, 1, 1 + number % 4).isoformat(),
        "url": "javascript:alert(1)" if number == 0 else f"https://t.vn/{number}",
        "text": SAID[number % 3],
        "hashtags": [],
        "intent": "praise",
        "intent_score": 0.5,
        "is_spam": number == 7,
        "spam_score": 0.0,
        "spam_reasons": [],
        "keywords": ["VF3"],
        "phrases": [],
        "aspects": ["battery"],
        "sentiment": sentiment,
        "sentiment_score": 0.1,
        "aspect_sentiments": {"battery": {"label": sentiment, "score": 0.1}},
        "reach": 10,
        "engagement": 5,
        "engagement_rate": 0.1,
        "impact": float(number),
        "risk": "HIGH" if number == 4 else "LOW",
        "crawled_at": "",
        "analyzed_at": AT.isoformat(),
        "model_version": "m1",
        "risk_score": 0.5,
        "missing": [],
        "simulated": False,
        "uncertain": {},
        "timezone": "Asia/Ho_Chi_Minh",
    }
    return {**row, **changes}


async def store(database: Database, *posts: dict[str, Any]) -> None:
    rows = [[post.get(name) for name in COLUMNS] for post in posts]
    projects = tuple(sorted({post["project_id"] for post in posts}))
    await database.rows("upsert_post_analytics", rows=rows, projects=projects)
