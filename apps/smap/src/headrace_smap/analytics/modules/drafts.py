"""What the modules fill in, one after another, for one post.

A draft is complete from the start: whatever no module has looked at reads *unknown*, *neutral* or *other*, so any set
of modules makes a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import NotRequired, Protocol, TypedDict, runtime_checkable
from zoneinfo import ZoneInfo

import msgspec

from headrace.errors import CallerError
from headrace_smap.analytics.modules.posts import RawPost
from headrace_smap.days import VIETNAM

VIETNAMESE = "vi"
ENGLISH = "en"
MIXED = "mixed"
OTHER = "other"
UNKNOWN = "unknown"
POSITIVE = "positive"
NEUTRAL = "neutral"
NEGATIVE = "negative"
SENTIMENTS = (NEGATIVE, NEUTRAL, POSITIVE)
LOW, MEDIUM, HIGH, CRITICAL = "LOW", "MEDIUM", "HIGH", "CRITICAL"


@dataclass(frozen=True, slots=True)
class AnalysisContext:
    """What an analysis depends on besides the post: the moment it is made, what its project looks for, where the
    days of the project end (None: it names none), and the zone that divides days."""

    now: datetime
    keywords: tuple[str, ...] = ()
    until: datetime | None = None
    zone: ZoneInfo = VIETNAM

    def __post_init__(self) -> None:
        if self.now.tzinfo is None or (self.until is not None and self.until.tzinfo is None):
            raise CallerError("the moment of an analysis needs a time zone", "datetime.now(UTC)")

    @property
    def as_of(self) -> datetime:
        """The moment against which a post is old: what was new within the days of its project stays so."""
        return self.now if self.until is None else min(self.now, self.until)


@dataclass(slots=True)
class Sentence:
    """A sentence in two forms: as it was written, and as words that can be looked up.

    Words are lower-case, composed, one spelling each, with slang written out; emoji and punctuation are words too.
    `plain`: Vietnamese without its marks. `clauses` are the places where a new clause begins, with the weight of what
    is said there. `valences` is what a sentiment made of its words, and `pictures` of its emoji: index and strength.
    """

    text: str
    words: list[str]
    language: str = UNKNOWN
    plain: bool = False
    question: bool = False
    clauses: list[tuple[int, int, float]] = field(default_factory=list)
    valences: list[tuple[int, float]] | None = None
    pictures: list[tuple[int, float]] = field(default_factory=list)
    strength: float = 0.0


class AspectSentiment(TypedDict):
    """What a post says about one aspect."""

    label: str
    score: float


class Doubt(TypedDict):
    """Why an answer is uncertain: what rules and a model say, if they were asked, and by how much the answer leads."""

    rules: NotRequired[str]
    model: NotRequired[str]
    margin: float


class Draft(msgspec.Struct):
    """One post on its way through the modules."""

    post: RawPost
    context: AnalysisContext
    text: str = ""
    language: str = UNKNOWN
    language_confidence: float = 0.0
    sentences: list[Sentence] = []
    hashtags: list[str] = []
    mentions: list[str] = []
    urls: list[str] = []
    emails: list[str] = []
    phones: list[str] = []
    emojis: list[str] = []
    intent: str = OTHER
    intent_score: float = 0.0
    is_spam: bool = False
    spam_score: float = 0.0
    spam_reasons: list[str] = []
    keywords: list[str] = []
    phrases: list[str] = []
    aspects: list[str] = []
    aspect_places: list[tuple[str, int, int]] = []
    sentiment: str = NEUTRAL
    sentiment_score: float = 0.0
    aspect_sentiments: dict[str, AspectSentiment] = {}
    reach: int | None = None
    engagement: int | None = None
    engagement_rate: float | None = None
    author_weight: float = 0.0
    freshness: float = 0.0
    impact: float | None = None
    risk: str = LOW
    risk_score: float = 0.0
    missing: list[str] = []
    uncertain: dict[str, Doubt] = {}

    @staticmethod
    def of(post: RawPost, context: AnalysisContext) -> Draft:
        """Nothing is known yet but the text."""
        return Draft(post, context, post.text)

    def values(self) -> tuple[object, ...]:
        """What a row keeps of it, in plain values, in the order of `COLUMNS`."""
        return _told(self.post) + _found(self)


class Module(Protocol):
    """One step of the analysis: pure computing on one draft, the same draft for the same post.

    `version` changes whenever its answers may. What it raises fails this post and no other. A module that reads what
    another one wrote names it in `needs`, if it has that attribute.
    """

    name: str
    version: str

    def apply(self, draft: Draft) -> None: ...


@runtime_checkable
class BatchModule(Protocol):
    """A module that is cheaper with many drafts at once, such as a model. After it raised for some of them it is asked
    again for each alone, so what it fills in must not depend on what it filled in before."""

    name: str
    version: str

    def apply_all(self, drafts: Sequence[Draft]) -> None: ...


_TOLD: tuple[str, ...] = ("id", "platform", "author_id", "author_name", "followers", "likes", "comments", "shares")
_TOLD += ("views", "url")
_FOUND: tuple[str, ...] = ("text", "language", "hashtags", "intent", "intent_score", "is_spam", "spam_score")
_FOUND += ("spam_reasons", "keywords", "phrases", "aspects", "sentiment", "sentiment_score", "aspect_sentiments")
_FOUND += ("reach", "engagement", "engagement_rate", "impact", "risk", "risk_score", "missing", "uncertain")
_told: Callable[[RawPost], tuple[object, ...]] = attrgetter(*_TOLD)
_found: Callable[[Draft], tuple[object, ...]] = attrgetter(*_FOUND, "post.simulated")
COLUMNS = ("post_id", *_TOLD[1:], *_FOUND, "simulated")
