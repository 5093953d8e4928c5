"""How a reader looks at a report: language, time zone, and where its links lead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from headrace.pages import Html, Words, banner, element, is_followed, mark
from headrace_smap.days import VIETNAM, clock_in
from headrace_smap.insight.report.content import ProjectReport
from headrace_smap.insight.report.figures import sentiment_of
from headrace_smap.insight.report.posts import GENUINE, FoundPosts
from headrace_smap.insight.report.words import ENGLISH

LANGUAGE = "language"
SENTIMENT_TONES = {"positive": "good", "neutral": "neutral", "negative": "bad", "unknown": "other"}
INTENTS = ("question", "complaint", "praise", "purchase", "comparison", "news", "support", "other")
RISK_TONES = {"CRITICAL": "bad", "HIGH": "warn", "MEDIUM": "plain", "LOW": "neutral"}


@dataclass(frozen=True, slots=True)
class ReportView:
    """`in_file` has the posts of a page that stands alone; a service links to its list instead. `length` is how many
    days a period has, `beside` the projects to compare with, `others` those that can be chosen, by id; `asked` is what
    the address says besides."""

    words: Words = ENGLISH
    zone: ZoneInfo = VIETNAM
    in_file: FoundPosts | None = None
    length: int | None = None
    beside: Sequence[ProjectReport] = ()
    others: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, str] = field(default_factory=dict)

    def posts_url(self, **filters: str) -> str:
        """The list with what shares count, unless spam is asked for: the page of the service, or this very page."""
        asked = {f"posts.{name}": value for name, value in ({"spam": GENUINE} | filters).items() if value}
        page = "" if self.in_file else "posts"
        return f"{page}?{urlencode(asked | self.kept)}#posts"

    def own_url(self, **changes: str) -> str:
        """This page, with something else in its address."""
        return f"?{urlencode({**self.asked, **changes})}"

    @staticmethod
    def query(parameters: Mapping[str, str]) -> str:
        return urlencode(parameters)

    @property
    def kept(self) -> dict[str, str]:
        """What every link takes along."""
        return {LANGUAGE: self.asked[LANGUAGE]} if LANGUAGE in self.asked else {}

    @property
    def languages(self) -> dict[str, str]:
        """The same page in each language; a file is in one."""
        return {} if self.in_file else {language: self.own_url(language=language) for language in ("en", "vi")}

    @staticmethod
    def day(text: str) -> date | None:
        """A day as it is stored; None if it is none."""
        try:
            return date.fromisoformat(text)
        except ValueError:
            return None

    @staticmethod
    def web(url: str) -> str:
        """An address of the web, or nothing: within our own pages a post leads nowhere."""
        return url if is_followed(url) and "//" in url else ""

    def banner(self, simulated: int, posts: int) -> Html:
        """Nobody may take what was made up for what somebody said."""
        return banner(self.words("banner", count=simulated, all=posts)) if simulated else Html()

    def simulated_mark(self, simulated: bool) -> Html:
        """Beside a post that was made up."""
        return element("b", self.words("posts.simulated")) if simulated else Html()

    def local(self, when: datetime) -> datetime:
        return clock_in(self.zone, when)

    def sentiment(self, name: str) -> Html:
        kind = sentiment_of(name)
        return mark(SENTIMENT_TONES[kind], self.words(f"sentiment.{kind}"))

    def risk(self, name: str) -> Html:
        return mark(RISK_TONES.get(name, "other"), self.words.get(f"risk.{name}", name or self.words("unknown")))

    def known(self, value: float | None, digits: int = 0) -> str:
        """A number; what nobody told is not 0."""
        return self.words("unknown") if value is None else self.words.number(value, digits)
