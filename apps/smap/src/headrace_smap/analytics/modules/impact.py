"""The fifth module: how much a post matters, and what it may do to the one it speaks about.

Reach and engagement grow like logarithms: a hundred times the views is one step more, not a hundred. What is old
fades; what is spam reaches nobody who listens. Risk is how negative a post is, times how far it carries.

What a platform does not tell is unknown and not 0: impact is made of the parts that are known, each with its weight,
and `missing` names the rest. A post of which no counter is known has no impact, and its risk follows from what it says.
"""

from __future__ import annotations

import math
from datetime import datetime

from headrace_smap.analytics.modules.amounts import COUNT_MAX
from headrace_smap.analytics.modules.drafts import CRITICAL, HIGH, LOW, MEDIUM, Draft
from headrace_smap.analytics.modules.pipelines import ModuleOptions
from headrace_smap.analytics.modules.posts import RawPost

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
UNKNOWN_LOUDNESS = 0.4
"""How loud a post of unknown reach is taken to be when its risk is judged: like one that some 50,000 have seen. Grave
words are a HIGH risk then, and never CRITICAL, which takes somebody who has heard them."""
RISKS = ((50.0, CRITICAL), (30.0, HIGH), (12.0, MEDIUM))
INPUTS = ("followers", "likes", "comments", "shares", "views", "published_at")
"""What is missing if a post does not tell it."""
_AGGRAVATING = {"complaint": 1.15, "support": 1.05}
_SAFETY = 1.5


class Impact:
    """From counters, time and what the other modules found."""

    name = "impact"
    version = "2"

    def __init__(self, options: ModuleOptions) -> None:
        del options

    def apply(self, draft: Draft) -> None:
        """Fill `reach`, `engagement`, `engagement_rate`, `author_weight`, `freshness`, `impact`, `risk`, `missing`."""
        post = draft.post
        draft.missing = [name for name in INPUTS if getattr(post, name) is None]
        draft.engagement = _engagement(post)
        draft.reach = _reach(post, draft.engagement)
        draft.engagement_rate = _rate(draft.engagement, draft.reach)
        draft.author_weight = _share(post.followers or 0, AUTHOR_FULL)
        draft.freshness = freshness(post.published_at, draft.context.as_of)
        trusted = SPAM_FACTOR if draft.is_spam else 1.0
        carried = 100 * (0.4 + 0.6 * draft.freshness) * trusted
        loud = _loudness(draft)
        draft.impact = None if loud is None else round(loud * carried, 2)
        draft.risk_score = _risk(draft, UNKNOWN_LOUDNESS * carried if draft.impact is None else draft.impact)
        draft.risk = next((risk for least, risk in RISKS if draft.risk_score >= least), LOW)


def freshness(published_at: datetime | None, as_of: datetime) -> float:
    """1 for that moment or later, a half three days before, and so on."""
    if published_at is None:
        return UNDATED_FRESHNESS
    age_h = max((as_of - published_at).total_seconds() / 3600, 0.0)
    return round(math.pow(0.5, min(age_h / HALF_LIFE_H, 1000.0)), 4)


def _engagement(post: RawPost) -> int | None:
    """Of the counters that are known; None if none is."""
    if post.likes is None and post.comments is None and post.shares is None:
        return None
    return min((post.likes or 0) + 2 * (post.comments or 0) + 3 * (post.shares or 0), COUNT_MAX)


def _reach(post: RawPost, engagement: int | None) -> int | None:
    if post.views is not None:
        # Somebody who engaged has seen it, whatever the counter says.
        return max(post.views, post.likes or 0, post.comments or 0, post.shares or 0)
    if post.followers:
        return max(int(post.followers * FOLLOWERS_REACHED), engagement or 0)
    # An author without followers is known to reach nobody; one whose followers nobody tells is not.
    return post.followers if engagement is None else min(engagement * ENGAGED_REACHED, COUNT_MAX)


def _rate(engagement: int | None, reach: int | None) -> float | None:
    if engagement is None or reach is None:
        return None
    return round(min(engagement / reach, 1.0), 4) if reach else 0.0


def _loudness(draft: Draft) -> float | None:
    """0 to 1 from the parts that are known, as if the others were like them; None if nobody can say who heard it."""
    if draft.reach is None:
        return None
    known = [(0.45, _share(draft.reach, REACH_FULL))]
    if draft.engagement is not None:
        known.append((0.35, _share(draft.engagement, ENGAGEMENT_FULL)))
    if draft.post.followers is not None:
        known.append((0.1, draft.author_weight))
    if draft.engagement_rate is not None:
        known.append((0.1, math.sqrt(draft.engagement_rate)))
    return min(sum(weight * part for weight, part in known) / sum(weight for weight, _ in known), 1.0)


def _share(value: int, full: int) -> float:
    return round(min(math.log1p(value) / math.log1p(full), 1.0), 4)


def _risk(draft: Draft, impact: float) -> float:
    negative = max(-draft.sentiment_score, 0.0)
    worst = min((said["score"] for said in draft.aspect_sentiments.values()), default=0.0)
    # A post that praises on the whole may still carry a grave fault, but does not spread it as one.
    severity = max(negative, -worst * 0.6 if draft.sentiment_score <= 0 else 0.0)
    if "safety" in draft.aspects and negative:
        severity *= _SAFETY
    return round(min(severity * _AGGRAVATING.get(draft.intent, 1.0), 1.0) * impact, 2)
