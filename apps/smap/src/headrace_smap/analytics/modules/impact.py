"""The fifth module: how much a post matters now, and what it may do to the one it speaks about.

Reach and engagement grow like logarithms: a hundred times the views is one step more, not a hundred. What is old
fades; what is spam reaches nobody who listens. Risk is how negative a post is, times how far it carries.
"""

from __future__ import annotations

import math
from datetime import datetime

from headrace_smap.analytics.modules.amounts import COUNT_MAX
from headrace_smap.analytics.modules.drafts import CRITICAL, HIGH, LOW, MEDIUM, Draft
from headrace_smap.analytics.modules.pipelines import ModuleOptions

HALF_LIFE_H = 72.0
UNDATED_FRESHNESS = 0.5
FOLLOWERS_REACHED = 0.2
"""So much of an author's followers see a post whose views nobody tells."""
ENGAGED_REACHED = 20
"""So many saw it for each that engaged, if nothing else is known."""
REACH_FULL = 10_000_000
ENGAGEMENT_FULL = 500_000
AUTHOR_FULL = 5_000_000
SPAM_FACTOR = 0.3
RISKS = ((50.0, CRITICAL), (30.0, HIGH), (12.0, MEDIUM))
_AGGRAVATING = {"complaint": 1.15, "support": 1.05}
_SAFETY = 1.5


class Impact:
    """From counters, time and what the other modules found."""

    name = "impact"
    version = "1"

    def __init__(self, options: ModuleOptions) -> None:
        del options

    def apply(self, draft: Draft) -> None:
        """Fill `reach`, `engagement`, `engagement_rate`, `author_weight`, `freshness`, `impact` and `risk`."""
        post = draft.post
        draft.engagement = min((post.likes or 0) + 2 * (post.comments or 0) + 3 * (post.shares or 0), COUNT_MAX)
        draft.reach = _reach(draft)
        draft.engagement_rate = round(min(draft.engagement / draft.reach, 1.0), 4) if draft.reach else 0.0
        draft.author_weight = _share(post.followers or 0, AUTHOR_FULL)
        draft.freshness = freshness(post.published_at, draft.context.now)
        heard = 0.45 * _share(draft.reach, REACH_FULL) + 0.35 * _share(draft.engagement, ENGAGEMENT_FULL)
        loud = heard + 0.1 * draft.author_weight + 0.1 * math.sqrt(draft.engagement_rate)
        trusted = SPAM_FACTOR if draft.is_spam else 1.0
        draft.impact = round(100 * loud * (0.4 + 0.6 * draft.freshness) * trusted, 2)
        draft.risk_score = _risk(draft)
        draft.risk = next((risk for least, risk in RISKS if draft.risk_score >= least), LOW)


def freshness(published_at: datetime | None, now: datetime) -> float:
    """1 for now or later, a half after three days, and so on."""
    if published_at is None:
        return UNDATED_FRESHNESS
    age_h = max((now - published_at).total_seconds() / 3600, 0.0)
    return round(math.pow(0.5, min(age_h / HALF_LIFE_H, 1000.0)), 4)


def _reach(draft: Draft) -> int:
    post = draft.post
    if post.views is not None:
        # Somebody who engaged has seen it, whatever the counter says.
        return max(post.views, (post.likes or 0), (post.comments or 0), (post.shares or 0))
    if post.followers:
        return max(int(post.followers * FOLLOWERS_REACHED), draft.engagement)
    return min(draft.engagement * ENGAGED_REACHED, COUNT_MAX)


def _share(value: int, full: int) -> float:
    return round(min(math.log1p(value) / math.log1p(full), 1.0), 4)


def _risk(draft: Draft) -> float:
    negative = max(-draft.sentiment_score, 0.0)
    worst = min((said["score"] for said in draft.aspect_sentiments.values()), default=0.0)
    # A post that praises on the whole may still carry a grave fault, but does not spread it as one.
    severity = max(negative, -worst * 0.6 if draft.sentiment_score <= 0 else 0.0)
    if "safety" in draft.aspects and negative:
        severity *= _SAFETY
    return round(min(severity * _AGGRAVATING.get(draft.intent, 1.0), 1.0) * draft.impact, 2)
